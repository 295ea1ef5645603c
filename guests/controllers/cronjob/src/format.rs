//! Times as text.

use flyball_sdk::Time;

use crate::zone::{Moment, Zone};

/// A time as the clocks of a zone show it, in the format of RFC 3339: `2026-01-01T13:00:00+01:00`. The offset 0 is `Z`.
pub fn rfc3339(time: Time, zone: &Zone) -> String {
    let Moment {
        year,
        month,
        day,
        hour,
        minute,
        second,
        offset,
        ..
    } = zone.at(time.seconds);
    let clock = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    match offset / 60 {
        0 => format!("{clock}Z"),
        minutes => {
            let sign = if minutes < 0 { '-' } else { '+' };
            let minutes = minutes.abs();
            format!("{clock}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Zones;

    #[test]
    fn times_have_the_offset_of_their_zone() {
        let time: Time = "2026-07-04T02:03:09Z".parse().unwrap();
        let zoned = |name| rfc3339(time, &Zones::default().load(name).unwrap());
        assert_eq!(zoned("UTC"), "2026-07-04T02:03:09Z");
        assert_eq!(zoned("Africa/Abidjan"), "2026-07-04T02:03:09Z");
        assert_eq!(zoned("America/St_Johns"), "2026-07-03T23:33:09-02:30");
        assert_eq!(zoned("Asia/Kathmandu"), "2026-07-04T07:48:09+05:45");
    }
}
