//! Whether the API server is reached, known once for all reflectors, so that its loss and its return are each logged once.

use std::sync::atomic::{AtomicBool, Ordering};

use flyball_types::error_chain;
use tracing::{info, warn};

use crate::SourceError;

/// The state of the connection, as the last request found it.
#[derive(Default)]
pub(crate) struct Link {
    is_down: AtomicBool,
}

impl Link {
    pub(crate) fn down(&self, error: &SourceError) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            warn!(error = %error_chain(error), "the API server can't be reached; caches stay as they are");
        }
    }

    pub(crate) fn up(&self) {
        if self.is_down.load(Ordering::Relaxed) && self.is_down.swap(false, Ordering::Relaxed) {
            info!("the API server is reached again");
        }
    }
}
