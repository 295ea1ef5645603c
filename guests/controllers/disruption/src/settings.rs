//! The operator's settings.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// How long an evicted pod is awaited.
pub const DELETION_TIMEOUT: &str = "deletion-timeout";
/// The age of a stale condition.
pub const STALE_POD_TIMEOUT: &str = "stale-pod-timeout";
/// The lifetime of a result of discovery.
pub const DISCOVERY_PERIOD: &str = "discovery-period";

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        DELETION_TIMEOUT,
        "2m",
        "how long a pod whose eviction was allowed counts as disrupted while it is not being deleted",
    ),
    (
        STALE_POD_TIMEOUT,
        "2m",
        "how long a pod that is not being deleted may have the condition DisruptionTarget before it is set to False",
    ),
    (
        DISCOVERY_PERIOD,
        "30s",
        "how long the path of a kind with the subresource scale is reused",
    ),
];

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub deletion_timeout: Duration,
    pub stale_pod_timeout: Duration,
    pub discovery_period: Duration,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// A value is not a duration.
    pub fn read(host: &Host) -> Result<Self, Error> {
        Ok(Self {
            deletion_timeout: duration(host, DELETION_TIMEOUT)?,
            stale_pod_timeout: duration(host, STALE_POD_TIMEOUT)?,
            discovery_period: duration(host, DISCOVERY_PERIOD)?,
        })
    }
}

fn duration(host: &Host, key: &str) -> Result<Duration, Error> {
    let text = host.config(key).unwrap_or_default();
    flyball_sdk::duration::parse(&text).map_err(|_| Error::invalid_config(key, &text))
}
