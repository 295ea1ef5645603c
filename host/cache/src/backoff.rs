//! The reflector's backoff: the delay after a failure grows exponentially, and jitter spreads the reflectors.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(800);
/// Without jitter, which adds up to half of it, so that the longest delay is 30 s.
const LONGEST: Duration = Duration::from_secs(20);

/// Exponential backoff with jitter.
pub(crate) struct Backoff {
    delay: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { delay: FIRST }
    }

    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        let delay = self.delay.mul_f64(1.0 + random() / 2.0);
        self.delay = LONGEST.min(2 * self.delay);
        delay
    }

    /// Starts again at the first delay.
    pub(crate) fn reset(&mut self) {
        self.delay = FIRST;
    }
}

/// A number from 0 to 1, random enough to spread requests.
pub(crate) fn random() -> f64 {
    // The standard library seeds each `RandomState` from the system's randomness.
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_from_less_than_a_second_to_half_a_minute() {
        let mut backoff = Backoff::new();
        let delays: Vec<f64> = (0..10).map(|_| backoff.next().as_secs_f64()).collect();
        assert!(
            (0.8..1.2).contains(&delays[0]) && (1.6..2.4).contains(&delays[1]),
            "{delays:?}"
        );
        assert!(
            delays[5..]
                .iter()
                .all(|delay| (20.0..=30.0).contains(delay)),
            "{delays:?}"
        );
        backoff.reset();
        assert!(backoff.next().as_secs_f64() < 1.2);
    }
}
