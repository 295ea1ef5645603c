//! What the operator can set.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// What the operator can set; see [`describe`](crate::describe::describe) for what each is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long changes of pods are gathered before their job is reconciled.
    pub sync_batch_period: Duration,
    /// How long a job waits after the first failure of a pod.
    pub pod_failure_backoff: Duration,
    /// How long it waits at most.
    pub max_pod_failure_backoff: Duration,
    /// How many pods can be in `status.uncountedTerminatedPods`.
    pub max_uncounted_pods: usize,
    /// How many pods a reconcile makes or deletes.
    pub max_pod_create_delete_per_sync: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sync_batch_period: Duration::from_secs(1),
            pod_failure_backoff: Duration::from_secs(10),
            max_pod_failure_backoff: Duration::from_secs(600),
            max_uncounted_pods: 500,
            max_pod_create_delete_per_sync: 500,
        }
    }
}

/// The keys of the configuration, with their defaults and what they do.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        "sync-batch-period",
        "1s",
        "how long changes of pods are gathered before their job is reconciled",
    ),
    (
        "pod-failure-backoff",
        "10s",
        "how long a job waits after a pod has failed; doubled with each failure more",
    ),
    (
        "max-pod-failure-backoff",
        "10m",
        "how long a job waits after failures of its pods at most",
    ),
    (
        "max-uncounted-pods",
        "500",
        "how many pods that have ended are counted in one step",
    ),
    (
        "max-pod-create-delete-per-sync",
        "500",
        "how many pods one reconcile makes or deletes",
    ),
];

impl Settings {
    /// The operator's settings.
    ///
    /// # Errors
    /// A value makes no sense.
    pub fn read(host: &Host) -> Result<Self, Error> {
        let default = Self::default();
        let wrong = |key: &str, text: &str| {
            Error::terminal(format!("the setting {key} makes no sense: `{text}`"))
        };
        let duration = |key: &str, default: Duration| match host.config(key) {
            Some(text) => flyball_sdk::duration::parse(&text).map_err(|_| wrong(key, &text)),
            None => Ok(default),
        };
        let number = |key: &str, default: usize| match host.config(key) {
            Some(text) => text
                .parse()
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| wrong(key, &text)),
            None => Ok(default),
        };
        Ok(Self {
            sync_batch_period: duration("sync-batch-period", default.sync_batch_period)?,
            pod_failure_backoff: duration("pod-failure-backoff", default.pod_failure_backoff)?,
            max_pod_failure_backoff: duration(
                "max-pod-failure-backoff",
                default.max_pod_failure_backoff,
            )?,
            max_uncounted_pods: number("max-uncounted-pods", default.max_uncounted_pods)?,
            max_pod_create_delete_per_sync: number(
                "max-pod-create-delete-per-sync",
                default.max_pod_create_delete_per_sync,
            )?,
        })
    }
}
