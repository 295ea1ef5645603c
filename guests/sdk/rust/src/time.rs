//! Points in time in the API's format: RFC 3339 in UTC, with seconds or microseconds.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// A point in time with nanoseconds. It is serialized with whole seconds, like
/// `metadata.creationTimestamp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds of the second, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// A point in time that is serialized with microseconds, like a Lease's `renewTime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MicroTime(pub Time);

/// The text is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeError(pub String);

impl Time {
    /// This many seconds after 1970-01-01T00:00:00Z.
    pub fn of_seconds(seconds: i64) -> Self {
        Self {
            seconds,
            nanoseconds: 0,
        }
    }

    /// Time from `earlier` to this time; zero if it is not later.
    pub fn since(self, earlier: Time) -> Duration {
        let nanos = self.nanos() - earlier.nanos();
        let nanos = u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos)
    }

    /// Time from `now` until this time; zero if it has passed.
    pub fn from_now(self, now: Time) -> Duration {
        self.since(now)
    }

    /// Drops the fraction of a second, like the API.
    pub fn to_second(self) -> Self {
        Self::of_seconds(self.seconds)
    }

    /// Parses a date such as `2026-01-31` as the start of that day in UTC; `None` if it is
    /// malformed.
    pub fn of_date(date: &str) -> Option<Self> {
        parse(&format!("{date}T00:00:00Z"))
    }

    /// The date in UTC, such as `2026-01-31`.
    pub fn date(self) -> String {
        let mut text = self.to_string();
        text.truncate(text.len() - "T00:00:00Z".len());
        text
    }

    fn nanos(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }

    /// The first or the last second of RFC 3339 if the time is outside of it: durations in objects can be of any
    /// length.
    fn of_nanos(nanos: i128) -> Self {
        let (first, last) = Self::RFC_3339;
        match i64::try_from(nanos.div_euclid(1_000_000_000)) {
            Ok(seconds) if (first..=last).contains(&seconds) => Self {
                seconds,
                nanoseconds: nanos.rem_euclid(1_000_000_000) as u32,
            },
            _ if nanos < 0 => Self::of_seconds(first),
            _ => Self::of_seconds(last),
        }
    }

    /// The first and the last second of the years 0 to 9999.
    const RFC_3339: (i64, i64) = (-62_167_219_200, 253_402_300_799);
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Self::of_nanos(self.nanos() + duration.as_nanos() as i128)
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, duration: Duration) -> Time {
        Self::of_nanos(self.nanos() - duration.as_nanos() as i128)
    }
}

/// `2026-01-31T12:00:00Z`
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", Civil(self.seconds))
    }
}

/// `2026-01-31T12:00:00.000000Z`
impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:06}Z",
            Civil(self.0.seconds),
            self.0.nanoseconds / 1000
        )
    }
}

/// Formats a number of seconds as date and time.
struct Civil(i64);

impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.0.div_euclid(86_400));
        let second = self.0.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )
    }
}

/// Days from 1970-01-01 to a Gregorian date. The day may lie outside of its month.
// Years are counted from March, so that the leap day is the last of the year (Howard Hinnant, "chrono-Compatible
// Low-Level Date Algorithms").
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days_of`]: year, month and day.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * of_era + of_era / 4 - of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + of_era + i64::from(month <= 2), month, date)
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        parse(text).ok_or_else(|| TimeError(text.into()))
    }
}

/// `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`
fn parse(text: &str) -> Option<Time> {
    let (date_time, rest) = text.split_at_checked(19)?;
    let bytes = date_time.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if separators
        .iter()
        .any(|&(at, separator)| bytes[at] != separator)
    {
        return None;
    }
    let number = |from: usize, to: usize| digits(date_time.get(from..to)?);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let days = days_of(year, month, day);
    if date_of(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (nanoseconds, zone) = match rest.strip_prefix('.') {
        Some(fraction) => {
            let end = fraction.find(|c: char| !c.is_ascii_digit())?;
            let (fraction, zone) = fraction.split_at(end);
            let nanoseconds = digits(&format!("{:0<9}", fraction.get(..9).unwrap_or(fraction)))?;
            if fraction.is_empty() {
                return None;
            }
            (nanoseconds as u32, zone)
        }
        None => (0, rest),
    };
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
    Some(Time {
        seconds,
        nanoseconds,
    })
}

/// The offset of a time zone from UTC, in seconds.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    (hours.len() == 2 && minutes.len() == 2).then_some(())?;
    Some(sign * (digits(hours)? * 3600 + digits(minutes)? * 60))
}

fn digits(text: &str) -> Option<i64> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())?
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an RFC 3339 time", self.0)
    }
}

impl std::error::Error for TimeError {}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for MicroTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Time::deserialize(deserializer).map(Self)
    }
}

/// Converts to milliseconds, rounded up and capped at `u32::MAX` (49 days).
pub(crate) fn millis(duration: Duration) -> u32 {
    let millis = duration
        .as_secs()
        .saturating_mul(1000)
        .saturating_add(duration.subsec_nanos().div_ceil(1_000_000).into());
    u32::try_from(millis).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2026-12-31T01:02:03Z",
            "1969-12-31T23:59:59Z",
            "2106-02-07T06:28:15Z",
        ] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert_eq!(
            "2106-02-07T06:28:15Z".parse(),
            Ok(Time::of_seconds(i64::from(u32::MAX)))
        );
    }

    #[test]
    fn every_day_of_eight_centuries_round_trips() {
        for day in -150_000..150_000 {
            let (year, month, date) = date_of(day);
            assert_eq!(days_of(year, month, date), day);
        }
    }

    #[test]
    fn fractions_and_zones_are_parsed() {
        let time: Time = "2026-01-01T02:00:00.25+02:00".parse().unwrap();
        assert_eq!(
            (time.to_string(), time.nanoseconds),
            ("2026-01-01T00:00:00Z".into(), 250_000_000)
        );
        let text = "2026-01-01T00:00:00.123456Z";
        assert_eq!(MicroTime(text.parse().unwrap()).to_string(), text);
    }

    #[test]
    fn malformed_times_are_rejected() {
        for text in [
            "",
            "2026-01-01",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01 00:00:00Z",
            "+026-01-01T00:00:00Z",
            "ééééééééééé",
        ] {
            assert_eq!(text.parse::<Time>(), Err(TimeError(text.into())));
        }
    }

    #[test]
    fn dates_round_trip() {
        let start = Time::of_date("2024-02-29").unwrap();
        assert_eq!(start.to_string(), "2024-02-29T00:00:00Z");
        assert_eq!((start + Duration::from_secs(86_399)).date(), "2024-02-29");
        assert_eq!((start - Duration::from_secs(1)).date(), "2024-02-28");
        for text in [
            "",
            "2026-02-29",
            "2026-1-1",
            "2026-01-01T00:00:00Z",
            "01-01-2026",
            "2026-01-01 ",
        ] {
            assert_eq!(Time::of_date(text), None, "{text}");
        }
    }

    #[test]
    fn times_end_with_the_year_9999() {
        let now: Time = "2026-01-01T00:00:00Z".parse().unwrap();
        let longest = Duration::from_secs(i64::MAX as u64);
        assert_eq!((now + longest).to_string(), "9999-12-31T23:59:59Z");
        assert_eq!((now - longest).to_string(), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn durations_are_added_subtracted_and_measured() {
        let noon: Time = "2026-01-01T12:00:00Z".parse().unwrap();
        let later = noon + Duration::from_millis(1500);
        assert_eq!(
            (later.since(noon), noon.since(later)),
            (Duration::from_millis(1500), Duration::ZERO)
        );
        assert_eq!(later - Duration::from_millis(1500), noon);
    }
}
