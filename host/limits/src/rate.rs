//! Limits by rate, over one token bucket: a [`RateLimiter`] makes its callers wait, a [`RateGate`] drops the excess.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use flyball_types::printable;
use flyball_workqueue::{BucketConfig, TokenBucket};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Bytes of a line of the log that counts as one.
const LINE: usize = 1024;

/// Returns none if the rate is 0, which means no limit.
fn bucket(per_second: f64, burst: u32) -> Option<Mutex<TokenBucket>> {
    let config = BucketConfig {
        qps: per_second,
        burst: burst.max(1),
    };
    (per_second > 0.0).then(|| Mutex::new(TokenBucket::new(config)))
}

/// The fewest requests that may be in flight at once, and the most. Each needs a connection, which costs both sides a
/// handshake, and this side up to 60 KiB of buffers. With no more than 100, a busy server deletes the pods of a large
/// ReplicaSet more slowly than for kube-controller-manager.
const IN_FLIGHT: std::ops::RangeInclusive<usize> = 16..=300;

/// Lets `burst` requests through at once, and `per_second` on average; the others wait.
pub struct RateLimiter {
    per_second: f64,
    bucket: Option<Mutex<TokenBucket>>,
    in_flight: usize,
    waits: Arc<AtomicU64>,
}

impl RateLimiter {
    /// A rate of 0 means no limit.
    pub fn new(per_second: f64, burst: u32) -> Self {
        let (fewest, most) = IN_FLIGHT.into_inner();
        let in_flight = match per_second > 0.0 {
            true => (per_second.ceil() as usize).max(burst as usize),
            false => most,
        };
        Self {
            per_second,
            bucket: bucket(per_second, burst),
            in_flight: in_flight.clamp(fewest, most),
            waits: Arc::default(),
        }
    }

    /// Requests per second, on average; 0 for no limit.
    pub fn per_second(&self) -> f64 {
        self.per_second
    }

    /// The maximum number of requests in flight at once: a burst, or the requests of one second, so that a slow server
    /// does not keep them below the rate, within [`IN_FLIGHT`].
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Waits until a request may start, and returns how long it had to wait. A caller that stops waiting has still used
    /// its token.
    pub async fn wait(&self) -> Duration {
        let Some(bucket) = &self.bucket else {
            return Duration::ZERO;
        };
        let wait = bucket.lock().reserve(Instant::now());
        if !wait.is_zero() {
            self.waits.fetch_add(1, Relaxed);
            tokio::time::sleep(wait).await;
        }
        wait
    }

    /// Counts the callers that had to wait.
    pub fn waits(&self) -> Arc<AtomicU64> {
        self.waits.clone()
    }
}

/// Lets `burst` log lines or events through at once, and `per_second` on average; the others are dropped and counted,
/// because a guest never waits for them.
pub struct RateGate {
    per_second: f64,
    bucket: Option<Mutex<TokenBucket>>,
    /// Since the start.
    dropped: AtomicU64,
    /// The part of `dropped` that was reported to the operator.
    reported: AtomicU64,
}

impl RateGate {
    /// A rate of 0 means no limit.
    pub fn new(per_second: f64, burst: u32) -> Self {
        Self {
            per_second,
            bucket: bucket(per_second, burst),
            dropped: AtomicU64::new(0),
            reported: AtomicU64::new(0),
        }
    }

    /// Lines or events per second, on average; 0 for no limit.
    pub fn per_second(&self) -> f64 {
        self.per_second
    }

    /// Whether one more may pass. If not, it is counted as dropped.
    pub fn pass(&self) -> bool {
        self.pass_as(|| 1)
    }

    /// Whether a line with this text may pass. A long line counts as several, by its length in the log.
    pub fn pass_line(&self, text: &str) -> bool {
        self.pass_as(|| {
            let more = printable(text).len() / LINE;
            u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1)
        })
    }

    fn pass_as(&self, count: impl FnOnce() -> u32) -> bool {
        let passes = self.bucket.as_ref().is_none_or(|bucket| {
            let count = count();
            bucket.lock().try_take_many(count, Instant::now())
        });
        if !passes {
            self.dropped.fetch_add(1, Relaxed);
        }
        passes
    }

    /// Returns how many were dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Returns how many were dropped since the last call.
    pub(crate) fn take_unreported(&self) -> u64 {
        let dropped = self.dropped();
        dropped - self.reported.swap(dropped, Relaxed).min(dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_requests_are_in_flight_as_the_rate_allows() {
        for (per_second, burst, in_flight) in [
            (20.0, 30, 30),
            (5.0, 10, 16),
            (80.0, 40, 80),
            (20.0, 500, 300),
            (200.0, 100, 200),
            (1e6, 50, 300),
            (0.0, 1, 300),
        ] {
            assert_eq!(RateLimiter::new(per_second, burst).in_flight(), in_flight);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let limiter = RateLimiter::new(10.0, 5);
        let start = Instant::now();
        for _ in 0..5 {
            assert_eq!(limiter.wait().await, Duration::ZERO);
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            let wait = limiter.wait().await;
            assert!((99..=101).contains(&wait.as_millis()), "{wait:?}");
        }
        let took = start.elapsed();
        assert!((999..=1020).contains(&took.as_millis()), "{took:?}");
        assert_eq!(limiter.waits().load(Relaxed), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_line_counts_as_several() {
        let passed = |text: &str| {
            let gate = RateGate::new(1.0, 100);
            (0..1000).filter(|_| gate.pass_line(text)).count()
        };
        assert_eq!(passed("short"), 100);
        assert_eq!(passed(&"a".repeat(8 * LINE)), 11);
        // Each is six characters in the log.
        assert_eq!(passed(&"\0".repeat(8 * LINE)), 2);
        assert_eq!(passed(&"a".repeat(1000 * LINE)), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_passes_at_the_rate_and_drops_are_reported_once() {
        let gate = RateGate::new(10.0, 20);
        assert_eq!((0..1000).filter(|_| gate.pass()).count(), 20);
        assert_eq!(
            (
                gate.dropped(),
                gate.take_unreported(),
                gate.take_unreported()
            ),
            (980, 980, 0)
        );
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert_eq!((0..1000).filter(|_| gate.pass()).count(), 10);
        assert_eq!((gate.dropped(), gate.take_unreported()), (1970, 990));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nothing_waits_and_nothing_is_dropped() {
        let (limiter, gate, start) = (
            RateLimiter::new(0.0, 1),
            RateGate::new(0.0, 1),
            Instant::now(),
        );
        for _ in 0..1000 {
            limiter.wait().await;
            assert!(gate.pass());
        }
        assert_eq!((start.elapsed(), gate.dropped()), (Duration::ZERO, 0));
    }
}
