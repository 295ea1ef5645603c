//! The queue's metrics: events as they happen, and gauges on request.
//!
//! The comments name the client-go metric that each one feeds; the meaning is the same.

use tokio::time::Duration;

/// Receives a queue's events. The default of each method does nothing.
///
/// The methods are called outside the queue's locks, on the thread that caused the event. They should return quickly
/// and must not panic.
pub trait Metrics: Send + Sync {
    /// A key was queued (`workqueue_adds_total`). An add that was coalesced with an earlier one doesn't count.
    fn on_add(&self) {}
    /// A worker took a key that had been queued for this long (`workqueue_queue_duration_seconds`).
    fn on_get(&self, queued: Duration) {
        let _ = queued;
    }
    /// A worker finished a key after this long (`workqueue_work_duration_seconds`).
    fn on_done(&self, worked: Duration) {
        let _ = worked;
    }
    /// A key was added with a delay or a rate limit (`workqueue_retries_total`).
    fn on_retry(&self) {}
}

/// Ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {}

/// The keys that a queue holds: ready, delayed, processed or in their minimum interval. A key that is delayed and in
/// another of these states counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub keys: usize,
    /// Their size, by [`Config::key_bytes`](crate::Config::key_bytes).
    pub bytes: usize,
    /// The memory in bytes that the queue takes for them, without what the reasons refer to.
    pub memory: usize,
}

/// A queue's gauges at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Keys ready in the normal lane.
    pub normal: usize,
    /// Keys ready in the low lane.
    pub low: usize,
    /// Keys that were added while a worker had them or during their minimum interval, and become ready after it.
    pub dirty: usize,
    /// Delayed keys that are not due. A key may be counted here and in another field.
    pub delayed: usize,
    /// Keys that workers are processing.
    pub processing: usize,
    /// How long these have been processed, in sum (`workqueue_unfinished_work_seconds`).
    pub unfinished_work: Duration,
    /// How long the longest of these has been processed (`workqueue_longest_running_processor_seconds`).
    pub longest_running: Duration,
}

impl Snapshot {
    /// Keys that were added and not yet taken by a worker (`workqueue_depth`).
    pub fn depth(&self) -> usize {
        self.normal + self.low + self.dirty
    }
}
