//! The operator's settings.
//!
//! Upstream: pkg/controller/job/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long changes of pods are batched before their job is reconciled.
    pub sync_batch_period: Duration,
    /// The backoff after the first pod failure.
    pub pod_failure_backoff: Duration,
    /// The maximum backoff.
    pub max_pod_failure_backoff: Duration,
    /// Maximum number of pods in `status.uncountedTerminatedPods`.
    pub max_uncounted_pods: usize,
    /// Maximum number of pods that a reconcile creates or deletes.
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

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        "sync-batch-period",
        "1s",
        "how long changes of pods are batched before their job is reconciled",
    ),
    (
        "pod-failure-backoff",
        "10s",
        "backoff after the first pod failure of a job; doubled with each further failure",
    ),
    (
        "max-pod-failure-backoff",
        "10m",
        "maximum backoff after pod failures",
    ),
    (
        "max-uncounted-pods",
        "500",
        "maximum number of ended pods counted in one step",
    ),
    (
        "max-pod-create-delete-per-sync",
        "500",
        "maximum number of pods that one reconcile creates or deletes",
    ),
];

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn read(host: &Host) -> Result<Self, Error> {
        let default = Self::default();
        let duration = |key: &str, default| host.config_duration(key, default);
        let number = |key: &str, default: usize| host.config_number(key, default, 1..);
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
