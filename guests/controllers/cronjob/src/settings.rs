//! The operator's settings.
//!
//! Upstream: pkg/controller/cronjob/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::zone::Zone;

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The zone of schedules that name none.
    pub time_zone: Zone,
    /// How long after a scheduled time a CronJob is reconciled.
    pub schedule_delta: Duration,
    /// The number of missed times above which they are reported.
    pub max_missed: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            time_zone: Zone::utc(),
            schedule_delta: Duration::from_millis(100),
            max_missed: 100,
        }
    }
}

/// The configuration key of the machine's time zone.
pub const TIME_ZONE: &str = "time-zone";

/// The configuration keys with their defaults and descriptions.
pub const KEYS: &[(&str, &str, &str)] = &[
    (
        TIME_ZONE,
        "UTC",
        "time zone of schedules that name none: a name of the time zone database, or a rule as in POSIX's TZ; \
         by default that of the host",
    ),
    (
        "schedule-delta",
        "100ms",
        "how long after a scheduled time a job is created, in case that clocks differ",
    ),
    (
        "max-missed-schedules",
        "100",
        "more missed times of a schedule than this are reported in an event",
    ),
];

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn read(host: &Host) -> Result<Self, Error> {
        let default = Self::default();
        let time_zone = match host.config(TIME_ZONE) {
            Some(text) => {
                Zone::of_machine(&text).map_err(|_| Error::invalid_config(TIME_ZONE, &text))?
            }
            None => default.time_zone,
        };
        Ok(Self {
            time_zone,
            schedule_delta: host.config_duration("schedule-delta", default.schedule_delta)?,
            max_missed: host.config_number("max-missed-schedules", default.max_missed, 0..)?,
        })
    }
}
