//! The token bucket: lets a burst through at once, and a fixed rate on average.
//!
//! The workqueue's rate limiter (`limiter.rs`) reserves tokens from one. It has no lock and no clock of its own, so
//! that other rate limiters can be built on it.

use tokio::time::{Duration, Instant};

/// The longest wait. A wait that overflows or never ends is cut to this. (Thirty years, which is tokio's own limit.)
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The rate and the size of a [`TokenBucket`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketConfig {
    /// Tokens added per second. None are added if this is not above zero.
    pub qps: f64,
    /// The largest number of tokens in the bucket.
    pub burst: u32,
}

/// A token bucket. It starts full.
///
/// The times given to it should not go back: one that does counts as no time passed.
#[derive(Debug)]
pub struct TokenBucket {
    config: BucketConfig,
    /// The tokens as of `refilled`. A negative number is the number of reservations that still wait for their token.
    tokens: f64,
    /// When tokens were last added; `None` before the first use.
    refilled: Option<Instant>,
}

impl TokenBucket {
    pub fn new(config: BucketConfig) -> Self {
        Self {
            config,
            tokens: f64::from(config.burst),
            refilled: None,
        }
    }

    /// Takes a token, if need be one that is yet to be added. Returns how long to wait for it, at most thirty years.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        self.refill(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.qps())
            .map_or(MAX_WAIT, |wait| wait.min(MAX_WAIT))
    }

    /// Takes a token if there is one now, and returns whether there was.
    pub fn try_take(&mut self, now: Instant) -> bool {
        self.try_take_many(1, now)
    }

    /// Takes `count` tokens if they are available now. If the bucket can't hold that many, a full bucket is enough, and
    /// all its tokens are taken.
    pub fn try_take_many(&mut self, count: u32, now: Instant) -> bool {
        self.refill(now);
        let count = f64::from(count.min(self.config.burst));
        let is_available = self.tokens >= count;
        if is_available {
            self.tokens -= count;
        }
        is_available
    }

    pub(crate) fn config(&self) -> BucketConfig {
        self.config
    }

    /// Adds the tokens for the time since the last refill, up to the bucket's size.
    fn refill(&mut self, now: Instant) {
        let passed = self
            .refilled
            .map_or(Duration::ZERO, |then| now.saturating_duration_since(then));
        self.refilled = Some(now);
        let burst = f64::from(self.config.burst);
        self.tokens = (self.tokens + passed.as_secs_f64() * self.qps()).min(burst);
    }

    /// The rate, with zero instead of a negative number or NaN.
    fn qps(&self) -> f64 {
        if self.config.qps > 0.0 {
            self.config.qps
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(qps: f64, burst: u32) -> TokenBucket {
        TokenBucket::new(BucketConfig { qps, burst })
    }

    #[test]
    fn a_burst_is_free_and_each_reservation_after_it_waits_for_its_own_token() {
        let start = Instant::now();
        let mut bucket = bucket(10.0, 2);
        let waits: Vec<u128> = (0..4).map(|_| bucket.reserve(start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        // 300 ms bring three tokens: two pay the debt, one is free.
        let later = start + Duration::from_millis(300);
        assert_eq!(bucket.reserve(later), Duration::ZERO);
        assert_eq!(bucket.reserve(later), Duration::from_millis(100));
    }

    #[test]
    fn a_token_is_taken_only_if_a_whole_one_is_there() {
        let start = Instant::now();
        let mut bucket = bucket(10.0, 2);
        assert_eq!(
            [(); 3].map(|()| bucket.try_take(start)),
            [true, true, false]
        );
        assert!(!bucket.try_take(start + Duration::from_millis(90)));
        // The failed attempts took nothing.
        assert!(bucket.try_take(start + Duration::from_millis(101)));
        assert!(!bucket.try_take(start + Duration::from_millis(101)));
    }

    #[test]
    fn an_idle_bucket_fills_up_to_its_burst() {
        let start = Instant::now();
        let mut bucket = bucket(10.0, 3);
        for _ in 0..3 {
            assert!(bucket.try_take(start));
        }
        let later = start + Duration::from_secs(3600);
        assert_eq!(
            [(); 4].map(|()| bucket.try_take(later)),
            [true, true, true, false]
        );
    }

    #[test]
    fn a_time_that_goes_back_adds_no_tokens() {
        let start = Instant::now();
        let mut bucket = bucket(10.0, 1);
        assert!(bucket.try_take(start + Duration::from_secs(1)));
        assert!(!bucket.try_take(start));
    }

    #[test]
    fn a_rate_that_adds_no_tokens_waits_the_longest_and_never_panics() {
        let now = Instant::now();
        let thirty_years = Duration::from_secs(946_080_000);
        for qps in [0.0, -1.0, f64::NAN, f64::MIN_POSITIVE, 1e-12] {
            assert_eq!(bucket(qps, 0).reserve(now), thirty_years, "qps {qps}");
        }
        assert_eq!(bucket(f64::INFINITY, 0).reserve(now), Duration::ZERO);
    }
}
