//! What a plugin says, at the rate that it may: lines of the log and events beyond it are dropped and counted, because whoever
//! emits them never waits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::limits::rate::Bucket;
use crate::lock;

/// Lets `burst` through at once, and `per_second` on average.
pub(crate) struct Gate {
    /// 0 for no limit.
    per_second: f64,
    bucket: Mutex<Bucket>,
    /// Since the start.
    dropped: AtomicU64,
    /// Those of which the operator was told.
    told: AtomicU64,
}

impl Gate {
    /// A rate of 0 is no limit.
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        let bucket = Mutex::new(Bucket::new(per_second, burst));
        Self {
            per_second,
            bucket,
            dropped: AtomicU64::new(0),
            told: AtomicU64::new(0),
        }
    }

    /// Whether one more may pass. One that may not is counted.
    pub(crate) fn pass(&self) -> bool {
        if self.per_second <= 0.0 {
            return true;
        }
        let mut bucket = lock(&self.bucket);
        let tokens = bucket.tokens();
        if *tokens < 1.0 {
            self.dropped.fetch_add(1, Relaxed);
            return false;
        }
        *tokens -= 1.0;
        true
    }

    /// How many were dropped since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// How many were dropped since this was last asked.
    pub(crate) fn take_untold(&self) -> u64 {
        let dropped = self.dropped();
        dropped - self.told.swap(dropped, Relaxed).min(dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_passes_at_the_rate_and_what_is_dropped_is_told_once() {
        let gate = Gate::new(10.0, 20);
        assert_eq!((0..1000).filter(|_| gate.pass()).count(), 20);
        assert_eq!(
            (gate.dropped(), gate.take_untold(), gate.take_untold()),
            (980, 980, 0)
        );
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert_eq!((0..1000).filter(|_| gate.pass()).count(), 10);
        assert_eq!((gate.dropped(), gate.take_untold()), (1970, 990));
    }

    #[test]
    fn without_a_rate_all_pass() {
        let gate = Gate::new(0.0, 1);
        assert!((0..1000).all(|_| gate.pass()));
        assert_eq!(gate.dropped(), 0);
    }
}
