//! The rate of a plugin's calls: a token bucket whose callers wait their turn.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tokio::time::{Duration, Instant};

use crate::lock;

/// Tokens, of which so many come in a second, up to `burst`.
pub(crate) struct Bucket {
    per_second: f64,
    burst: f64,
    /// Below zero: so many callers are waiting.
    tokens: f64,
    at: Instant,
}

impl Bucket {
    /// A full one, for one token at least.
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            per_second,
            burst,
            tokens: burst,
            at: Instant::now(),
        }
    }

    /// The tokens that are there now.
    pub(crate) fn tokens(&mut self) -> &mut f64 {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
        self.at = now;
        &mut self.tokens
    }
}

/// Lets `burst` calls through at once, and `per_second` on average.
pub(crate) struct RateLimiter {
    per_second: f64,
    bucket: Mutex<Bucket>,
    /// How many callers had to wait.
    pub(crate) waits: Arc<AtomicU64>,
}

impl RateLimiter {
    /// A rate of 0 is no limit.
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        Self {
            per_second,
            bucket: Mutex::new(Bucket::new(per_second, burst)),
            waits: Arc::default(),
        }
    }

    /// Waits until a call may start. A caller that stops waiting has still used up its turn.
    pub(crate) async fn turn(&self) {
        if self.per_second <= 0.0 {
            return;
        }
        let wait = {
            let mut bucket = lock(&self.bucket);
            let tokens = bucket.tokens();
            *tokens -= 1.0;
            (-*tokens / self.per_second).max(0.0)
        };
        if wait > 0.0 {
            self.waits.fetch_add(1, Relaxed);
            tokio::time::sleep(Duration::from_secs_f64(wait)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let limiter = RateLimiter::new(10.0, 5);
        let start = Instant::now();
        for _ in 0..5 {
            limiter.turn().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            limiter.turn().await;
        }
        assert!(
            start.elapsed() >= Duration::from_millis(999),
            "{:?}",
            start.elapsed()
        );
        assert!(
            start.elapsed() <= Duration::from_millis(1020),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(limiter.waits.load(Relaxed), 10);
    }
}
