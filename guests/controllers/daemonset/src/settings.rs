//! The operator's settings.
//!
//! Upstream: pkg/controller/daemon/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The backoff after the first failed pod of a node was deleted.
    pub failed_pod_backoff: Duration,
    /// The maximum backoff.
    pub max_failed_pod_backoff: Duration,
    /// Maximum number of pods that a step creates, and that it deletes.
    pub burst: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            failed_pod_backoff: Duration::from_secs(1),
            max_failed_pod_backoff: Duration::from_secs(15 * 60),
            burst: 250,
        }
    }
}

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        "failed-pod-backoff",
        "1s",
        "how long failed pods of a node are kept after one was deleted; doubled with each further one",
    ),
    (
        "max-failed-pod-backoff",
        "15m",
        "the longest time for which failed pods of a node are kept",
    ),
    (
        "burst-replicas",
        "250",
        "maximum number of pods that one step creates, and that it deletes",
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
        Ok(Self {
            failed_pod_backoff: duration("failed-pod-backoff", default.failed_pod_backoff)?,
            max_failed_pod_backoff: duration(
                "max-failed-pod-backoff",
                default.max_failed_pod_backoff,
            )?,
            burst: host.config_number("burst-replicas", default.burst, 1..)?,
        })
    }

    /// How long after its last use a backoff is forgotten.
    pub fn backoff_expiry(&self) -> Duration {
        2 * self.max_failed_pod_backoff
    }
}
