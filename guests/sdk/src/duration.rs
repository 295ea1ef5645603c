//! Durations as operators write them, in flags and in a plugin's configuration: `30s`, `1h30m`,
//! `8760h0m0s`, `250ms`.

use std::time::Duration;

/// Reads a duration that is not negative, as Go's `time.ParseDuration` does: numbers, each with its
/// unit; `0` needs none. None if the text is no such thing, or if it is more than some 292 years.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(flyball_sdk::duration::parse("1h30m"), Some(Duration::from_secs(5400)));
/// assert_eq!(flyball_sdk::duration::parse("90"), None);
/// ```
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if matches!(rest, "" | "0") {
        return (rest == "0").then_some(Duration::ZERO);
    }
    let is_of_number = |c: char| c.is_ascii_digit() || c == '.';
    let mut nanoseconds: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c| !is_of_number(c))?);
        let (unit, after) = after.split_at(after.find(is_of_number).unwrap_or(after.len()));
        nanoseconds = nanoseconds.checked_add(times(number, nanoseconds_of(unit)?)?)?;
        rest = after;
    }
    i64::try_from(nanoseconds)
        .is_ok()
        .then_some(Duration::from_nanos(nanoseconds))
}

/// A decimal number of a unit.
fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction: f64 = if fraction.is_empty() {
        0.0
    } else {
        format!("0.{fraction}").parse().ok()?
    };
    whole
        .checked_mul(unit)?
        .checked_add((fraction * unit as f64) as u64)
}

fn nanoseconds_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter.
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
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("250ms", 250),
            ("8760h0m0s", 31_536_000_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("+.5s", 500),
            ("1.s", 1_000),
            ("1500us1500µs", 3),
            ("2000000ns", 2),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(
            parse("2562047h47m16.854775807s"),
            Some(Duration::from_nanos(i64::MAX as u64))
        );
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "+",
            "1",
            "h",
            ".h",
            "1.2.3s",
            "1d",
            "-1s",
            "1 h",
            "1h ",
            "3000000h",
            "2562047h47m16.854775808s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
