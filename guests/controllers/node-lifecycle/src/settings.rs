//! The operator's settings.
//!
//! Upstream: pkg/controller/nodelifecycle/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// The configuration key of the period.
pub const PERIOD: &str = "monitor-period";
const GRACE: &str = "monitor-grace-period";
const STARTUP_GRACE: &str = "startup-grace-period";
const RATE: &str = "eviction-rate";
const SECONDARY_RATE: &str = "secondary-eviction-rate";
const LARGE: &str = "large-cluster-size-threshold";
const UNHEALTHY: &str = "unhealthy-zone-threshold";

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub period: Duration,
    pub grace: Duration,
    pub startup_grace: Duration,
    /// Nodes per second.
    pub rate: f64,
    /// Nodes per second.
    pub secondary_rate: f64,
    pub large: i64,
    pub unhealthy: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(5),
            grace: Duration::from_secs(50),
            startup_grace: Duration::from_secs(60),
            rate: 0.1,
            secondary_rate: 0.01,
            large: 50,
            unhealthy: 0.55,
        }
    }
}

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        PERIOD,
        "5s",
        "how often the health of all nodes is looked at",
    ),
    (
        GRACE,
        "50s",
        "how long a node may be silent before its conditions become Unknown",
    ),
    (
        STARTUP_GRACE,
        "60s",
        "how long a node that has never reported its status may be silent",
    ),
    (
        RATE,
        "0.1",
        "nodes per second that get a NoExecute taint, in each zone that is healthy",
    ),
    (
        SECONDARY_RATE,
        "0.01",
        "nodes per second that get a NoExecute taint, in each large zone that is unhealthy",
    ),
    (
        LARGE,
        "50",
        "number of nodes above which a zone is large; an unhealthy zone that is not large gets no NoExecute taints",
    ),
    (
        UNHEALTHY,
        "0.55",
        "fraction of nodes that are not ready, at least three, that makes a zone unhealthy",
    ),
];

impl Settings {
    /// The longest time between two points of the monitor, by the wall clock, in which the process can't have been
    /// suspended and the clock can't have been set.
    pub fn longest_step(&self) -> Duration {
        let usual = self.period + Duration::from_secs(15);
        usual.min(self.grace / 2).max(2 * self.period)
    }

    /// How long a node may be silent.
    pub fn grace_of(&self, has_reported: bool) -> Duration {
        match has_reported {
            true => self.grace,
            false => self.startup_grace,
        }
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn read(host: &Host) -> Result<Self, Error> {
        let default = Self::default();
        let duration = |key: &str, default| host.config_duration(key, default);
        let number = |key: &str, default: f64| host.config_number(key, default, ..);
        let period = duration(PERIOD, default.period)?;
        if period.is_zero() {
            return Err(Error::invalid_config(PERIOD, "0s"));
        }
        Ok(Self {
            period,
            grace: duration(GRACE, default.grace)?,
            startup_grace: duration(STARTUP_GRACE, default.startup_grace)?,
            rate: number(RATE, default.rate)?,
            secondary_rate: number(SECONDARY_RATE, default.secondary_rate)?,
            large: number(LARGE, default.large as f64)? as i64,
            unhealthy: number(UNHEALTHY, default.unhealthy)?,
        })
    }
}
