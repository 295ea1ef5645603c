//! The rate of a plugin's calls: a token bucket whose callers wait their turn.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tokio::time::{Duration, Instant};

use crate::lock;

/// Lets `burst` calls through at once, and `per_second` on average.
pub(crate) struct RateLimiter {
    per_second: f64,
    burst: f64,
    state: Mutex<State>,
    /// How many callers had to wait.
    pub(crate) waits: Arc<AtomicU64>,
}

struct State {
    /// Below zero: so many callers are waiting.
    tokens: f64,
    at: Instant,
}

impl RateLimiter {
    /// A rate of 0 is no limit.
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        let state = Mutex::new(State { tokens: burst, at: Instant::now() });
        Self { per_second, burst, state, waits: Arc::default() }
    }

    /// Waits until a call may start. A caller that stops waiting has still used up its turn.
    pub(crate) async fn turn(&self) {
        if self.per_second <= 0.0 {
            return;
        }
        let wait = {
            let mut state = lock(&self.state);
            let now = Instant::now();
            let passed = now.saturating_duration_since(state.at).as_secs_f64();
            state.tokens = (state.tokens + passed * self.per_second).min(self.burst) - 1.0;
            state.at = now;
            (-state.tokens / self.per_second).max(0.0)
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
        assert!(start.elapsed() >= Duration::from_millis(999), "{:?}", start.elapsed());
        assert!(start.elapsed() <= Duration::from_millis(1020), "{:?}", start.elapsed());
        assert_eq!(limiter.waits.load(Relaxed), 10);
    }
}
