//! Whether the API server is reachable. All connections and reflectors of the process share this state, so that each
//! change is logged once.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use flyball_types::error_chain;
use tracing::{info, warn};

/// The reachability of the API server as of the last request.
#[derive(Default)]
pub struct Reachability {
    is_down: AtomicBool,
}

impl Reachability {
    /// Notes that a request could not be sent, or that its connection broke.
    pub fn lost(&self, error: &(dyn Error + 'static)) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            warn!(error = %error_chain(error), "can't reach the API server; the caches stay as they are");
        }
    }

    /// Notes that the server has answered.
    pub fn restored(&self) {
        if self.is_down.load(Ordering::Relaxed) && self.is_down.swap(false, Ordering::Relaxed) {
            info!("the API server is reachable again");
        }
    }
}
