//! Durations as operators write them in flags, policies and the configuration of plugins: `30s`, `1h30m`, `250ms`.
//!
//! The syntax is the same as in Go's `time.ParseDuration`: a sign, then decimal numbers, each with a unit.

use std::time::Duration;

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("`{0}` is not a duration: write numbers with units, such as `90s`, `1h30m` or `500ms`")]
    Syntax(String),
    #[error("`{0}` has a number without a unit: write `ns`, `us`, `ms`, `s`, `m` or `h` after it")]
    MissingUnit(String),
    #[error("`{text}` has the unknown unit `{unit}`: use `ns`, `us`, `ms`, `s`, `m` or `h`")]
    UnknownUnit { text: String, unit: String },
    #[error("`{0}` is too long: durations end at about 292 years")]
    Overflow(String),
    #[error("`{0}` is negative: it must be zero or more")]
    Negative(String),
}

/// Reads a duration that is not negative.
///
/// ```
/// use std::time::Duration;
///
/// use flyball_types::duration::parse;
///
/// assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
/// assert_eq!(parse("-1s").unwrap_err().to_string(), "`-1s` is negative: it must be zero or more");
/// ```
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let nanoseconds = parse_nanoseconds(text)?;
    u64::try_from(nanoseconds)
        .map(Duration::from_nanos)
        .map_err(|_| DurationError::Negative(text.into()))
}

/// The absolute value of the most negative `time.Duration`, in nanoseconds.
const LIMIT: u64 = 1 << 63;

/// Reads a duration that may be negative, in nanoseconds, exactly as Go's `time.ParseDuration` does.
pub fn parse_nanoseconds(text: &str) -> Result<i64, DurationError> {
    let syntax = || DurationError::Syntax(text.into());
    let overflow = || DurationError::Overflow(text.into());
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(syntax());
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(syntax());
        }
        let is_numeric = |c: char| c.is_ascii_digit() || c == '.';
        let (unit, after) = after.split_at(after.find(is_numeric).unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.into()));
        }
        let scale = unit_nanoseconds(unit).ok_or_else(|| DurationError::UnknownUnit {
            text: text.into(),
            unit: unit.into(),
        })?;
        let whole: u64 = match whole {
            "" => 0,
            digits => digits.parse().map_err(|_| overflow())?,
        };
        sum = whole
            .checked_mul(scale)
            .and_then(|whole| whole.checked_add(fraction_of(fraction, scale)))
            .and_then(|nanoseconds| nanoseconds.checked_add(sum))
            .filter(|sum| *sum <= LIMIT)
            .ok_or_else(overflow)?;
        rest = after;
    }
    if negative {
        Ok(0i64.wrapping_sub_unsigned(sum))
    } else {
        i64::try_from(sum).map_err(|_| overflow())
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    )
}

/// The decimal fraction of a unit in nanoseconds, rounded as Go rounds it. Like Go, it ignores the digits that 63 bits
/// have no room for.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1f64);
    for digit in digits.bytes().map(|byte| u64::from(byte - b'0')) {
        if value > (LIMIT - 1) / 10 || value * 10 + digit > LIMIT {
            break;
        }
        value = value * 10 + digit;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

fn unit_nanoseconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // With the micro sign (U+00B5) or the Greek letter mu (U+03BC).
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_of_gos_own_test_has_the_value_that_go_gives_it() {
        // `parseDurationTests` of Go's `time/time_test.go`.
        for (text, nanoseconds) in [
            ("0", 0),
            ("5s", 5_000_000_000),
            ("30s", 30_000_000_000),
            ("1478s", 1_478_000_000_000),
            ("-5s", -5_000_000_000),
            ("+5s", 5_000_000_000),
            ("-0", 0),
            ("+0", 0),
            ("5.0s", 5_000_000_000),
            ("5.6s", 5_600_000_000),
            ("5.s", 5_000_000_000),
            (".5s", 500_000_000),
            ("1.0s", 1_000_000_000),
            ("1.00s", 1_000_000_000),
            ("1.004s", 1_004_000_000),
            ("1.0040s", 1_004_000_000),
            ("100.00100s", 100_001_000_000),
            ("10ns", 10),
            ("11us", 11_000),
            ("12µs", 12_000),
            ("12μs", 12_000),
            ("13ms", 13_000_000),
            ("14s", 14_000_000_000),
            ("15m", 900_000_000_000),
            ("16h", 57_600_000_000_000),
            ("3h30m", 12_600_000_000_000),
            ("10.5s4m", 250_500_000_000),
            ("-2m3.4s", -123_400_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("39h9m14.425s", 140_954_425_000_000),
            ("52763797000ns", 52_763_797_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("9007199254740993ns", 9_007_199_254_740_993),
            ("9223372036854775807ns", i64::MAX),
            ("9223372036854775.807us", i64::MAX),
            ("9223372036s854ms775us807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("-9223372036854775.808us", i64::MIN),
            ("-9223372036s854ms775us808ns", i64::MIN),
            ("-2562047h47m16.854775808s", i64::MIN),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.830103483285477580700h", 2_988_372_539_827),
        ] {
            assert_eq!(parse_nanoseconds(text), Ok(nanoseconds), "{text}");
        }
    }

    #[test]
    fn every_text_that_gos_own_test_refuses_is_refused() {
        // `parseDurationErrorTests` of Go's `time/time_test.go`, and further cases.
        for text in [
            "",
            "3",
            "-",
            "s",
            ".",
            "-.",
            ".s",
            "+.s",
            "1d",
            "\u{fffd}",
            "\u{fffd} hello \u{fffd} world",
            "9223372036854775810ns",
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "9223372036854776us",
            "3000000h",
            "9223372036854775.808us",
            "9223372036854ms775us808ns",
            "+",
            "--1s",
            "1.2.3s",
            "1..5s",
            "1 s",
            "1s ",
            " 1s",
            "1s2",
            "1e3s",
        ] {
            assert!(parse_nanoseconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_text_and_what_to_write() {
        for (text, expected) in [
            ("", "`` is not a duration: write numbers with units"),
            ("90", "`90` has a number without a unit: write `ns`"),
            ("1d", "`1d` has the unknown unit `d`: use `ns`"),
            ("3000000h", "`3000000h` is too long"),
            ("-1s", "`-1s` is negative: it must be zero or more"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(parse("-0s"), Ok(Duration::ZERO));
        assert_eq!(parse("1m30s"), Ok(Duration::from_secs(90)));
    }
}
