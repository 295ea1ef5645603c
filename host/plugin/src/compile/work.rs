//! The work of a child process, and how it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The work of a child process, and its limits.
pub(crate) struct ChildWork<'a> {
    /// The argument that selects the work.
    pub(crate) task: &'static str,
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
    /// In bytes.
    pub(crate) memory: usize,
    /// Bytes that it may return.
    pub(crate) output: usize,
    /// Ends the child once nobody waits for it.
    pub(crate) stop: &'a Stop,
}

/// Tells the thread that waits for a child process that the process is to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

/// Stops the work when it is dropped.
pub(crate) struct StopOnDrop(Stop);

impl Stop {
    pub(crate) fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Relaxed);
    }
}
