//! The rate limiter of retries: how long a key waits before its next attempt.
//!
//! The wait is the longer of the key's own exponential backoff and the queue's token bucket (`token_bucket.rs`), as in
//! client-go's default rate limiter.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::time::{Duration, Instant};

use crate::memory::shrink_if_sparse;
use crate::token_bucket::{BucketConfig, MAX_WAIT, TokenBucket};

/// The rate limit of a queue's retries. The default is client-go's: 5 ms doubling up to 1000 s, joined with a bucket of
/// 10 per second and a burst of 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// The backoff of a key's first retry. Each further retry doubles it. Equal to `max` for a fixed interval.
    pub base: Duration,
    /// The longest backoff of a key.
    pub max: Duration,
    /// The token bucket that all keys of the queue share; `None` for no shared limit.
    pub bucket: Option<BucketConfig>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl RateLimit {
    /// Exponential backoff joined with client-go's default bucket, as in nearly every queue of kube-controller-manager.
    pub fn exponential(base: Duration, max: Duration) -> Self {
        Self {
            base,
            max,
            bucket: Some(BucketConfig {
                qps: 10.0,
                burst: 100,
            }),
        }
    }

    /// The backoff of a key that failed `failures` times before.
    fn backoff(&self, failures: u32) -> Duration {
        let nanos = self.base.as_nanos() as f64 * 2f64.powi(failures.min(1000) as i32);
        // Compared before the conversion: the product may not fit a `Duration`.
        if nanos >= self.max.as_nanos() as f64 {
            self.max
        } else {
            Duration::from_nanos(nanos as u64)
        }
    }
}

/// The rate limiter of one queue.
pub(crate) struct RateLimiter<K> {
    limit: RateLimit,
    /// How often each key failed since it was last forgotten.
    failures: HashMap<K, u32>,
    bucket: Option<TokenBucket>,
}

impl<K: Eq + Hash> RateLimiter<K> {
    pub(crate) fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            failures: HashMap::new(),
            bucket: limit.bucket.map(TokenBucket::new),
        }
    }

    /// Changes the limit. The keys' failures stay; a bucket that differs starts full.
    pub(crate) fn set_limit(&mut self, limit: RateLimit) {
        if self.bucket.as_ref().map(TokenBucket::config) != limit.bucket {
            self.bucket = limit.bucket.map(TokenBucket::new);
        }
        self.limit = limit;
    }

    /// Counts a failure of the key and returns how long its retry waits.
    pub(crate) fn when(&mut self, key: K, now: Instant) -> Duration {
        let failures = self.failures.entry(key).or_default();
        let backoff = self.limit.backoff(*failures);
        *failures = failures.saturating_add(1);
        let bucket = self.bucket.as_mut();
        let for_token = bucket.map_or(Duration::ZERO, |bucket| bucket.reserve(now));
        backoff.max(for_token).min(MAX_WAIT)
    }

    pub(crate) fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or_default()
    }

    /// Ends the key's backoff: its next failure counts as its first.
    pub(crate) fn forget(&mut self, key: &K) {
        if self.failures.remove(key).is_some() {
            shrink_if_sparse(&mut self.failures);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limiter(bucket: Option<BucketConfig>) -> RateLimiter<u32> {
        RateLimiter::new(RateLimit {
            bucket,
            ..RateLimit::default()
        })
    }

    #[test]
    fn a_keys_backoff_doubles_from_5_ms_to_1000_s() {
        let now = Instant::now();
        let mut limiter = limiter(None);
        let millis: Vec<u128> = (0..20).map(|_| limiter.when(1, now).as_millis()).collect();
        let mut expected: Vec<u128> = (0..18).map(|n| 5 << n).collect();
        expected.extend([1_000_000, 1_000_000]);
        assert_eq!(millis, expected);
        assert_eq!(limiter.num_requeues(&1), 20);
        assert_eq!(
            limiter.when(2, now),
            Duration::from_millis(5),
            "another key has its own backoff"
        );
        limiter.forget(&1);
        assert_eq!(limiter.num_requeues(&1), 0);
        assert_eq!(limiter.when(1, now), Duration::from_millis(5));
    }

    #[test]
    fn an_empty_bucket_makes_each_retry_wait_for_its_token() {
        let start = Instant::now();
        let mut limiter = limiter(Some(BucketConfig {
            qps: 10.0,
            burst: 100,
        }));
        for key in 0..100 {
            assert_eq!(
                limiter.when(key, start),
                Duration::from_millis(5),
                "the burst is free"
            );
        }
        assert_eq!(limiter.when(100, start), Duration::from_millis(100));
        assert_eq!(limiter.when(101, start), Duration::from_millis(200));
        // A second brings ten tokens: two pay the debt, eight are free.
        let later = start + Duration::from_secs(1);
        for key in 200..208 {
            assert_eq!(limiter.when(key, later), Duration::from_millis(5));
        }
        assert_eq!(limiter.when(208, later), Duration::from_millis(100));
        // A long pause fills it no further than its burst.
        let much_later = later + Duration::from_secs(3600);
        for key in 300..400 {
            assert_eq!(limiter.when(key, much_later), Duration::from_millis(5));
        }
        assert_eq!(limiter.when(400, much_later), Duration::from_millis(100));
    }

    #[test]
    fn a_new_limit_keeps_the_failures() {
        let now = Instant::now();
        let mut limiter = limiter(None);
        limiter.when(1, now);
        limiter.set_limit(RateLimit {
            base: Duration::from_secs(1),
            max: Duration::from_secs(60),
            bucket: None,
        });
        assert_eq!(limiter.when(1, now), Duration::from_secs(2));
    }

    #[test]
    fn a_new_limit_keeps_the_tokens_unless_its_bucket_differs() {
        let now = Instant::now();
        let with_burst = |burst| RateLimit {
            base: Duration::ZERO,
            max: Duration::ZERO,
            bucket: Some(BucketConfig { qps: 1.0, burst }),
        };
        let mut limiter = RateLimiter::new(with_burst(1));
        assert_eq!(limiter.when(1, now), Duration::ZERO);
        limiter.set_limit(with_burst(1));
        assert_eq!(limiter.when(2, now), Duration::from_secs(1));
        limiter.set_limit(with_burst(2));
        let waits = [3, 4, 5].map(|key| limiter.when(key, now).as_secs());
        assert_eq!(waits, [0, 0, 1], "the new bucket starts full");
    }

    #[test]
    fn senseless_limits_wait_long_and_never_panic() {
        let now = Instant::now();
        for qps in [0.0, -1.0, f64::NAN, f64::MIN_POSITIVE] {
            let mut limiter = limiter(Some(BucketConfig { qps, burst: 0 }));
            assert_eq!(limiter.when(1, now), MAX_WAIT, "qps {qps}");
        }
        let mut endless = limiter(Some(BucketConfig {
            qps: f64::INFINITY,
            burst: 0,
        }));
        assert_eq!(endless.when(1, now), Duration::from_millis(5));
        let mut huge = RateLimiter::new(RateLimit {
            base: Duration::MAX,
            max: Duration::MAX,
            bucket: None,
        });
        assert_eq!(huge.when(1, now), MAX_WAIT);
        huge.failures.insert(1, u32::MAX);
        assert_eq!(huge.when(1, now), MAX_WAIT);
        let mut none = RateLimiter::new(RateLimit {
            base: Duration::ZERO,
            max: Duration::ZERO,
            bucket: None,
        });
        assert_eq!(none.when(1, now), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_window_lets_through_more_than_the_bucket_allows(
            steps in prop::collection::vec(0u64..400, 1..300), burst in 1u32..20, qps in 1u32..50,
        ) {
            let start = Instant::now();
            let limit = RateLimit {
                base: Duration::ZERO, max: Duration::ZERO, bucket: Some(BucketConfig { qps: f64::from(qps), burst }),
            };
            let mut limiter = RateLimiter::new(limit);
            let mut now = start;
            let mut ready = Vec::new();
            for (key, step) in steps.into_iter().enumerate() {
                now += Duration::from_millis(step);
                ready.push((now + limiter.when(key, now)).duration_since(start).as_secs_f64());
            }
            prop_assert!(ready.is_sorted_by(|a, b| *a <= b + 1e-6));
            for from in 0..ready.len() {
                for to in from..ready.len() {
                    let allowed = f64::from(burst) + (ready[to] - ready[from]) * f64::from(qps) + 1e-3;
                    prop_assert!((to - from + 1) as f64 <= allowed, "{} retries within {}..{}", to - from + 1, ready[from], ready[to]);
                }
            }
        }
    }
}
