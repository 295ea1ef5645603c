//! The operator's settings.

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
    /// The longest time between two points of the monitor, by the wall clock, in which the process can't have been suspended
    /// and the clock can't have been set.
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
        let period = duration(host, PERIOD, default.period)?;
        if period.is_zero() {
            return Err(invalid(PERIOD, "0s"));
        }
        Ok(Self {
            period,
            grace: duration(host, GRACE, default.grace)?,
            startup_grace: duration(host, STARTUP_GRACE, default.startup_grace)?,
            rate: number(host, RATE, default.rate)?,
            secondary_rate: number(host, SECONDARY_RATE, default.secondary_rate)?,
            large: number(host, LARGE, default.large as f64)? as i64,
            unhealthy: number(host, UNHEALTHY, default.unhealthy)?,
        })
    }
}

fn invalid(key: &str, text: &str) -> Error {
    Error::terminal(format!("invalid value of setting {key}: `{text}`"))
}

fn duration(host: &Host, key: &str, default: Duration) -> Result<Duration, Error> {
    match host.config(key) {
        Some(text) => flyball_sdk::duration::parse(&text).map_err(|_| invalid(key, &text)),
        None => Ok(default),
    }
}

fn number(host: &Host, key: &str, default: f64) -> Result<f64, Error> {
    match host.config(key) {
        Some(text) => text.parse().map_err(|_| invalid(key, &text)),
        None => Ok(default),
    }
}
