//! Counts durations in buckets, for quantiles of any number of them in little memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets in each power of two of microseconds.
const FINENESS: u32 = 4;
const BUCKETS: usize = 40 * FINENESS as usize;

/// Durations since the start.
#[derive(Debug)]
pub(crate) struct Durations([AtomicU64; BUCKETS]);

/// Durations since the last [`take`](Self::take).
pub(crate) struct RecentDurations([AtomicU32; BUCKETS]);

/// Numbers of durations by bucket.
pub(crate) struct Counts([u64; BUCKETS]);

impl Default for Durations {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Default for RecentDurations {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; BUCKETS])
    }
}

impl Durations {
    pub(crate) fn add(&self, duration: Duration) {
        self.0[bucket(duration)].fetch_add(1, Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts(std::array::from_fn(|at| self.0[at].load(Relaxed)))
    }
}

impl RecentDurations {
    pub(crate) fn add(&self, duration: Duration) {
        self.0[bucket(duration)].fetch_add(1, Relaxed);
    }

    /// Returns the durations since the last call.
    pub(crate) fn take(&self) -> Counts {
        Counts(std::array::from_fn(|at| self.0[at].swap(0, Relaxed).into()))
    }
}

impl Counts {
    /// Returns the duration that this share of the durations does not exceed, within a fifth; zero if there are none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let all: u64 = self.0.iter().sum();
        let mut left = (all as f64 * share).ceil() as u64;
        let found = self.0.iter().position(|count| {
            left = left.saturating_sub(*count);
            left == 0
        });
        found.filter(|_| all > 0).map_or(Duration::ZERO, upper)
    }
}

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let octave = micros.ilog2();
    let within = if octave >= 2 {
        (micros >> (octave - 2)) & 3
    } else {
        (micros << (2 - octave)) & 3
    };
    ((octave * FINENESS) as usize + within as usize).min(BUCKETS - 1)
}

/// Returns the longest duration of a bucket.
fn upper(bucket: usize) -> Duration {
    let (octave, within) = (
        bucket as u32 / FINENESS,
        bucket as u64 % u64::from(FINENESS),
    );
    Duration::from_nanos(((5 + within) * 1000) << octave >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_fifth_of_the_exact_ones() {
        let (all, recent) = (Durations::default(), RecentDurations::default());
        for took in 1..=1000 {
            all.add(Duration::from_micros(took));
            recent.add(Duration::from_micros(took));
        }
        for counts in [all.counts(), recent.take()] {
            let ms = |share| counts.quantile(share).as_secs_f64() * 1e3;
            assert!((0.5..0.63).contains(&ms(0.5)), "{}", ms(0.5));
            assert!((0.99..1.25).contains(&ms(0.99)), "{}", ms(0.99));
        }
        assert_eq!(recent.take().quantile(0.99), Duration::ZERO, "none since");
        assert!(all.counts().quantile(0.99) > Duration::ZERO);
    }

    #[test]
    fn each_duration_lies_in_its_bucket() {
        for micros in (0..2000).chain([10_000, 1_000_000, 3_600_000_000]) {
            let bucket = bucket(Duration::from_micros(micros));
            assert!(upper(bucket) >= Duration::from_micros(micros), "{micros}");
            assert!(
                bucket == 0 || upper(bucket - 1) <= Duration::from_micros(micros.max(1)),
                "{micros}"
            );
        }
    }
}
