//! Times in the memo.

use std::time::Duration;

use flyball_sdk::Time;

/// A point in time in milliseconds since 1970.
pub fn millis(time: Time) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0) * 1000 + u64::from(time.nanoseconds / 1_000_000)
}

/// The time since a point in time, in milliseconds since 1970; zero if it is yet to come.
pub fn since(now: Time, then: u64) -> Duration {
    Duration::from_millis(millis(now).saturating_sub(then))
}
