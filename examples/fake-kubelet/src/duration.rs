//! Durations as Go writes them: `500ms`, `10s`, `1m30s`, `2h`.

use std::time::Duration;

/// Reads a duration; none if the text is not one. `0` needs no unit.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum += Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        if after.is_empty() {
            return Some(sum);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("1.5s", 1500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "s", "5 s", "5d", "-5s", "5s5", "never", "1..5s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
