//! The parser of schedules: `minute hour day month weekday`, or a descriptor such as `@hourly`, after an
//! optional zone such as `TZ=Europe/Berlin` or `CRON_TZ=Europe/Berlin`.
//!
//! It accepts the same schedules as `cron.ParseStandard` of `github.com/robfig/cron` v3.0.1, with which the API server
//! validates them, and has the same error messages, which are part of events.

use std::num::IntErrorKind;

use flyball_sdk::duration::{DurationError, parse_nanoseconds};

use crate::schedule::{Fields, STAR, Schedule};
use crate::zone::{Zone, Zones};

/// Why a schedule can't be parsed, as a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(pub String);

/// The values of a field, and names for some of them.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds {
    min: 0,
    max: 59,
    names: &[],
};
const HOURS: Bounds = Bounds {
    min: 0,
    max: 23,
    names: &[],
};
const DAYS: Bounds = Bounds {
    min: 1,
    max: 31,
    names: &[],
};
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAYS: Bounds = Bounds {
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// Returns the zone that a schedule names.
pub fn zone_of(text: &str) -> Option<&str> {
    let (name, _) = zoned(text)?.split_once(' ')?;
    Some(name)
}

/// Returns what follows the start of a schedule with a zone.
fn zoned(text: &str) -> Option<&str> {
    text.strip_prefix("TZ=")
        .or_else(|| text.strip_prefix("CRON_TZ="))
}

/// Parses a schedule. Without a zone, or with the zone `Local`, the local clocks count.
///
/// # Errors
/// The text is malformed, or the zone is unknown.
pub fn parse(text: &str, zones: &Zones) -> Result<Schedule, ParseError> {
    if text.is_empty() {
        return fail("empty spec string");
    }
    let (zone, text) = match zoned(text).map(|zoned| zoned.split_once(' ')) {
        None => (zones.local.clone(), text),
        Some(Some((name, rest))) => {
            let zone = (zones.load(name))
                .map_err(|error| ParseError(format!("provided bad location {name}: {error}")))?;
            (zone, rest.trim())
        }
        // The library panics here, and its caller turns that into an error.
        Some(None) => {
            return fail("invalid schedule format: runtime error: slice bounds out of range [:-1]");
        }
    };
    if text.starts_with('@') {
        return descriptor(text, zone);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    let &[minute, hour, day, month, weekday] = fields.as_slice() else {
        let (count, fields) = (fields.len(), fields.join(" "));
        return fail(format!(
            "expected exactly 5 fields, found {count}: [{fields}]"
        ));
    };
    Ok(Schedule::Fields(Fields {
        minute: MINUTES.set(minute)?,
        hour: HOURS.set(hour)?,
        day: DAYS.set(day)?,
        month: MONTHS.set(month)?,
        weekday: WEEKDAYS.set(weekday)?,
        zone,
    }))
}

/// Parses a text that begins with `@`.
fn descriptor(text: &str, zone: Zone) -> Result<Schedule, ParseError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return every(text),
    };
    parse(fields, &Zones::of_local(zone))
}

/// Parses `@every` with a duration in Go's syntax. Fractions of a second are dropped, and the minimum is a second.
fn every(text: &str) -> Result<Schedule, ParseError> {
    let Some(duration) = text.strip_prefix("@every ") else {
        return fail(format!("unrecognized descriptor: {text}"));
    };
    match parse_nanoseconds(duration) {
        Ok(nanoseconds) => Ok(Schedule::Every((nanoseconds / 1_000_000_000).max(1))),
        Err(error) => {
            let reason = match error {
                DurationError::MissingUnit(_) => format!("missing unit in duration {duration:?}"),
                DurationError::UnknownUnit { unit, .. } => {
                    format!("unknown unit {unit:?} in duration {duration:?}")
                }
                _ => format!("invalid duration {duration:?}"),
            };
            fail(format!("failed to parse duration {text}: time: {reason}"))
        }
    }
}

impl Bounds {
    /// Parses a field: ranges with commas between them, in any number. Returns their values as bits.
    fn set(&self, field: &str) -> Result<u64, ParseError> {
        let ranges = field.split(',').filter(|range| !range.is_empty());
        ranges
            .map(|range| self.range(range))
            .try_fold(0, |all, bits| Ok(all | bits?))
    }

    /// Parses a range: a value, `from-to`, `*` or `?`, each with an optional `/step`. `from/step` goes up to the
    /// maximum. In `*-…`, the text after the hyphen is ignored.
    fn range(&self, text: &str) -> Result<u64, ParseError> {
        let parts: Vec<&str> = text.split('/').collect();
        let ends: Vec<&str> = parts[0].split('-').collect();
        let is_star = ["*", "?"].contains(&ends[0]);
        let (from, mut to) = match (is_star, ends.as_slice()) {
            (true, _) => (self.min, self.max),
            (_, [from, to]) => (self.value(from)?, self.value(to)?),
            (_, [from, _, ..]) => {
                self.value(from)?;
                return fail(format!("too many hyphens: {text}"));
            }
            _ => {
                let only = self.value(ends[0])?;
                (only, only)
            }
        };
        let step = match parts.as_slice() {
            [_] => 1,
            [_, step] => number(step)?,
            _ => return fail(format!("too many slashes: {text}")),
        };
        if parts.len() == 2 && ends.len() == 1 {
            to = self.max;
        }
        if from < self.min {
            return fail(format!(
                "beginning of range ({from}) below minimum ({}): {text}",
                self.min
            ));
        }
        if to > self.max {
            return fail(format!(
                "end of range ({to}) above maximum ({}): {text}",
                self.max
            ));
        }
        if from > to {
            return fail(format!(
                "beginning of range ({from}) beyond end of range ({to}): {text}"
            ));
        }
        if step == 0 {
            return fail(format!("step of range should be a positive number: {text}"));
        }
        let step_by = usize::try_from(step).unwrap_or(usize::MAX);
        let bits = (from..=to)
            .step_by(step_by)
            .fold(0, |bits, value| bits | 1 << value);
        // With a step, a star restricts the field like any other range.
        Ok(if is_star && step == 1 {
            bits | STAR
        } else {
            bits
        })
    }

    /// Parses a number or one of the names.
    fn value(&self, text: &str) -> Result<u64, ParseError> {
        let name = text.to_lowercase();
        match self.names.iter().position(|known| *known == name) {
            Some(at) => Ok(self.min + at as u64),
            None => number(text),
        }
    }
}

/// Parses a number that is not negative, as Go's `strconv.Atoi` does.
fn number(text: &str) -> Result<u64, ParseError> {
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number)
            .or_else(|_| fail(format!("negative number ({number}) not allowed: {text}"))),
        Err(error) => {
            let reason = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            fail(format!(
                "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {reason}"
            ))
        }
    }
}

fn fail<T>(message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError(message.into()))
}
