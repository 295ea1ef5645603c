//! How long to wait before failed pods are replaced: longer with each failure after the last
//! success.

use std::time::Duration;

use flyball_sdk::Time;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::views::Pod;

/// How often pods have failed since one succeeded, and when they last did. It is kept in the memo,
/// because pods that are deleted failures leave nothing else; where it is lost, the job does not
/// wait for failures that are already counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// How many failures since the last success.
    pub failures: u32,
    /// When the last of them was.
    pub last: Option<Time>,
}

impl Record {
    /// The record after these pods, which were not counted before.
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

    /// How long until pods may be made again.
    pub fn wait(&self, settings: &Settings, now: Time) -> Duration {
        self.last.map_or(Duration::ZERO, |last| {
            wait(self.failures, last, settings, now)
        })
    }
}

/// How long until an index whose last failed pod this is may get another one. Its annotations tell
/// of those before it.
pub fn wait_of_index(last_failed: Option<&Pod>, settings: &Settings, now: Time) -> Duration {
    let Some(pod) = last_failed else {
        return Duration::ZERO;
    };
    let failures = pod.all_earlier_failures().unsigned_abs().saturating_add(1);
    wait(failures, pod.finished_at(), settings, now)
}

fn wait(failures: u32, last: Time, settings: &Settings, now: Time) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let doubled = 2u32
        .checked_pow(failures - 1)
        .and_then(|times| settings.pod_failure_backoff.checked_mul(times));
    // The greatest wait bounds what was doubled; the first one stands as it was set.
    let backoff = match failures {
        1 => settings.pod_failure_backoff,
        _ => doubled
            .unwrap_or(Duration::MAX)
            .min(settings.max_pod_failure_backoff),
    };
    (last + backoff).since(now)
}
