//! Whether the API server is reachable. All reflectors share this state, so that each change is
//! logged once.

use std::sync::atomic::{AtomicBool, Ordering};

use flyball_types::error_chain;
use tracing::{info, warn};

use crate::SourceError;

/// The reachability of the API server as of the last request.
#[derive(Default)]
pub(crate) struct Reachability {
    is_down: AtomicBool,
}

impl Reachability {
    pub(crate) fn lost(&self, error: &SourceError) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            warn!(error = %error_chain(error), "can't reach the API server; the caches stay as they are");
        }
    }

    pub(crate) fn restored(&self) {
        if self.is_down.load(Ordering::Relaxed) && self.is_down.swap(false, Ordering::Relaxed) {
            info!("the API server is reachable again");
        }
    }
}
