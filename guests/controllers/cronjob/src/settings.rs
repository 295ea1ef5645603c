//! The operator's settings.
//!
//! Upstream: pkg/controller/cronjob/config/types.go.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::parse::zone_of;
use crate::zone::Zones;

/// The operator's settings; [`KEYS`] documents them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub zones: Zones,
    /// How long after a scheduled time a CronJob is reconciled.
    pub schedule_delta: Duration,
    /// The number of missed times above which they are reported.
    pub max_missed: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            zones: Zones::default(),
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
        let mut zones = default.zones;
        if let Some(text) = host.config(TIME_ZONE) {
            let set = zones.set_local(host, &text);
            set.map_err(|_| Error::invalid_config(TIME_ZONE, &text))?;
        }
        Ok(Self {
            zones,
            schedule_delta: host.config_duration("schedule-delta", default.schedule_delta)?,
            max_missed: host.config_number("max-missed-schedules", default.max_missed, 0..)?,
        })
    }

    /// Asks the host for the zones that a schedule and `spec.timeZone` name.
    pub fn ask_zones(&mut self, host: &Host, schedule: &str, time_zone: Option<&str>) {
        let names = time_zone.into_iter().chain(zone_of(schedule));
        names.for_each(|name| self.zones.ask(host, name));
    }
}
