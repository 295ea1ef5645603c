//! The result of a step.

use std::time::Duration;

use flyball_sdk::Error;

use crate::tally::Tally;

/// The pods that a step has created and removed.
#[derive(Debug, Default)]
pub struct Progress {
    /// Number of pods created.
    pub created: usize,
    /// Number of pods deleted, or found already deleted.
    pub removed: usize,
    /// Number of removed pods that were ready.
    pub removed_ready: usize,
    /// The time until the next reconcile, even if nothing changes.
    pub requeue_after: Option<Duration>,
    /// The first error.
    pub failure: Option<Error>,
}

impl Progress {
    /// Number of pods that are active after this step.
    pub fn active_after(&self, tally: &Tally) -> usize {
        tally.active.len() + self.created - self.removed
    }
}
