//! The validity of a certificate.
//!
//! Upstream: pkg/controller/certificates/signer/signer.go: duration.
//! Upstream: pkg/controller/certificates/authority/policies.go: apply.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// The time between the notBefore of a certificate and its signing, for clocks that are behind.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// The shortest validity, unless the operator's longest time is less.
const SHORTEST: Duration = Duration::from_secs(10 * 60);
/// A certificate that is valid for at least this time ends earlier by [`BACKDATE`]. A shorter-lived one keeps its end.
const SHORT: Duration = Duration::from_secs(8 * 60 * 60);

/// Returns how long a certificate is valid: the requested duration, but at least 10 minutes and at most `longest`,
/// which the operator sets.
pub fn duration(expiration_seconds: Option<i64>, longest: Duration) -> Duration {
    let Some(seconds) = expiration_seconds else {
        return longest;
    };
    let requested = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    if requested > longest {
        longest
    } else {
        requested.max(SHORTEST)
    }
}

/// Returns the notBefore and the notAfter of a certificate. The host shortens the validity to the authority's.
pub fn of(now: Time, duration: Duration) -> (Time, Time) {
    let end = now + duration;
    let end = if duration < SHORT {
        end
    } else {
        end - BACKDATE
    };
    (now - BACKDATE, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    #[test]
    fn a_request_gets_what_it_asks_for_between_the_bounds() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        for (seconds, longest, expected) in [
            (None, YEAR, YEAR),
            (None, minutes(1), minutes(1)),
            (Some(3600), YEAR, minutes(60)),
            (Some(600), YEAR, minutes(10)),
            (Some(599), YEAR, minutes(10)),
            (Some(0), YEAR, minutes(10)),
            (Some(-1), YEAR, minutes(10)),
            (Some(i64::MAX), YEAR, YEAR),
            (Some(600), minutes(5), minutes(5)),
            // As in kube-controller-manager.
            (Some(60), minutes(5), minutes(10)),
        ] {
            assert_eq!(duration(seconds, longest), expected, "{seconds:?}");
        }
    }

    #[test]
    fn only_long_certificates_end_earlier_for_having_begun_earlier() {
        let now = Time::of_seconds(1_900_000_000);
        let seconds = |duration| {
            let (start, end) = of(now, Duration::from_secs(duration));
            (start.seconds - now.seconds, end.seconds - now.seconds)
        };
        assert_eq!(seconds(600), (-300, 600));
        assert_eq!(seconds(8 * 3600 - 1), (-300, 8 * 3600 - 1));
        assert_eq!(seconds(8 * 3600), (-300, 8 * 3600 - 300));
        assert_eq!(seconds(YEAR.as_secs()), (-300, 365 * 86400 - 300));
    }
}
