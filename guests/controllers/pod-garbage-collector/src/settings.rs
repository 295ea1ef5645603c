//! The operator's settings.
//!
//! Upstream: pkg/controller/podgc/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// The configuration key of the period.
pub const PERIOD: &str = "period";
const QUARANTINE: &str = "quarantine";
const THRESHOLD: &str = "terminated-pod-threshold";

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub period: Duration,
    pub quarantine: Duration,
    /// How many ended pods are kept; `None` for all.
    pub ended_pods: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(20),
            quarantine: Duration::from_secs(40),
            ended_pods: Some(12_500),
        }
    }
}

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        PERIOD,
        "20s",
        "how often ended pods and pods on nodes that are out of service are looked for, and how long after its deletion a \
         pod that was never on a node is deleted by force",
    ),
    (
        QUARANTINE,
        "40s",
        "how long a node must be missing from the cache before a live read decides whether its pods are deleted",
    ),
    (
        THRESHOLD,
        "12500",
        "number of ended pods that are kept; 0 or less for all",
    ),
];

impl Settings {
    /// How long a missing node waits after a failure, and while pods remain on it.
    pub fn retry_period(&self) -> Duration {
        self.quarantine.max(self.period)
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn read(host: &Host) -> Result<Self, Error> {
        let default = Self::default();
        let ended_pods = default.ended_pods.map_or(0, |number| number as i64);
        let ended_pods: i64 = host.config_number(THRESHOLD, ended_pods, ..)?;
        let period = host.config_duration(PERIOD, default.period)?;
        if period.is_zero() {
            return Err(Error::invalid_config(PERIOD, "0s"));
        }
        Ok(Self {
            period,
            quarantine: host.config_duration(QUARANTINE, default.quarantine)?,
            ended_pods: usize::try_from(ended_pods)
                .ok()
                .filter(|number| *number > 0),
        })
    }
}
