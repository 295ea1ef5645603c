//! What the queue tells about itself: events as they happen, and gauges when they are asked for.
//!
//! The names in the comments are those of client-go's metrics, whose meaning is kept.

use tokio::time::Duration;

/// Takes a queue's events. Every method has a default that does nothing, and is called outside the queue's lock, on the
/// thread that caused the event: it should be quick and must not panic.
pub trait Metrics: Send + Sync {
    /// A key became queued (`workqueue_adds_total`). Adds that were folded into a queued one don't count.
    fn on_add(&self) {}
    /// A worker got a key that had been queued for this long (`workqueue_queue_duration_seconds`).
    fn on_get(&self, queued: Duration) {
        let _ = queued;
    }
    /// A worker was done with a key after this long (`workqueue_work_duration_seconds`).
    fn on_done(&self, worked: Duration) {
        let _ = worked;
    }
    /// A key was added for later, by time or by rate limit (`workqueue_retries_total`).
    fn on_retry(&self) {}
}

/// Takes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {}

/// A queue's gauges at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Keys ready in the normal lane.
    pub normal: usize,
    /// Keys ready in the low lane.
    pub low: usize,
    /// Keys that were added while a worker has them, and become ready when it is done.
    pub dirty: usize,
    /// Keys whose time has not come. A key may be counted here and above.
    pub delayed: usize,
    /// Keys that workers have.
    pub processing: usize,
    /// For how long they have had them, summed up (`workqueue_unfinished_work_seconds`).
    pub unfinished_work: Duration,
    /// For how long the oldest has been had (`workqueue_longest_running_processor_seconds`).
    pub longest_running: Duration,
}

impl Snapshot {
    /// Keys added and not yet got (`workqueue_depth`).
    pub fn depth(&self) -> usize {
        self.normal + self.low + self.dirty
    }
}
