//! Backoff before failed pods are replaced. It doubles with each failure since the last success.
//!
//! Upstream: pkg/controller/job/backoff_utils.go: newBackoffRecord, getRemainingTime, getRemainingTimePerIndex,
//! getRemainingTimeForFailuresCount.

use std::time::Duration;

use flyball_sdk::Time;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::views::Pod;

/// The pod failures since the last success. The record is kept in the memo, because deleted pods leave no other trace
/// of their failures. If the memo loses it, the job does not back off for failures that are already counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Number of failures since the last success.
    pub failures: u32,
    /// The time of the last failure.
    pub last: Option<Time>,
}

impl Record {
    /// Returns the record with newly succeeded and newly failed pods included.
    pub fn after(&self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let last_success = succeeded.iter().map(|pod| pod.finished_at()).max();
        let is_later = |at: &Time| last_success.is_none_or(|success| *at > success);
        let since: Vec<Time> = failed
            .iter()
            .map(|pod| pod.finished_at())
            .filter(is_later)
            .collect();
        let before = if last_success.is_some() {
            Self::default()
        } else {
            self.clone()
        };
        let failures = before.failures.saturating_add(since.len() as u32);
        Self {
            failures,
            last: since.into_iter().max().or(before.last),
        }
    }

    /// Time until pods may be created again.
    pub fn wait(&self, settings: &Settings, now: Time) -> Duration {
        self.last.map_or(Duration::ZERO, |last| {
            wait(self.failures, last, settings, now)
        })
    }
}

/// Time until an index whose last failed pod is `last_failed` may get a new pod. The pod's
/// annotations hold the number of earlier failures.
pub fn wait_of_index(last_failed: Option<&Pod>, settings: &Settings, now: Time) -> Duration {
    let Some(pod) = last_failed else {
        return Duration::ZERO;
    };
    let failures = pod.all_earlier_failures().unsigned_abs().saturating_add(1);
    wait(failures, pod.finished_at(), settings, now)
}

/// With the default settings, the backoff is 10 s after the first failure, then 20 s, 40 s and so on, and 10 minutes
/// from the seventh failure on.
fn wait(failures: u32, last: Time, settings: &Settings, now: Time) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let doubled = 2u32
        .checked_pow(failures - 1)
        .and_then(|times| settings.pod_failure_backoff.checked_mul(times));
    // The maximum applies only to doubled backoffs: the first backoff is used as configured.
    let backoff = match failures {
        1 => settings.pod_failure_backoff,
        _ => doubled
            .unwrap_or(Duration::MAX)
            .min(settings.max_pod_failure_backoff),
    };
    (last + backoff).since(now)
}
