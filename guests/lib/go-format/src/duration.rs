//! Durations.

use std::time::Duration;

/// Returns a duration as Go's `Duration.String` prints it.
///
/// ```
/// use std::time::Duration;
///
/// let print = |nanoseconds| flyball_go_format::duration(Duration::from_nanos(nanoseconds));
/// assert_eq!([print(0), print(12), print(1_500), print(2_030_000)], ["0s", "12ns", "1.5µs", "2.03ms"]);
/// assert_eq!([print(1_000_000_000), print(90_500_000_000)], ["1s", "1m30.5s"]);
/// assert_eq!(print(3_600_000_000_000), "1h0m0s");
/// ```
pub fn duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    match nanoseconds {
        0 => "0s".into(),
        1..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => format!("{}µs", decimal(nanoseconds, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(nanoseconds, 6)),
        _ => {
            let minutes = duration.as_secs() / 60;
            let seconds = decimal(nanoseconds - u128::from(minutes) * 60_000_000_000, 9);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// A number with this many of its digits after the point, without zeros at the end.
fn decimal(number: u128, digits: u32) -> String {
    let unit = 10_u128.pow(digits);
    let fraction = format!("{:0width$}", number % unit, width = digits as usize);
    match fraction.trim_end_matches('0') {
        "" => (number / unit).to_string(),
        fraction => format!("{}.{fraction}", number / unit),
    }
}
