//! The Secrets of bootstrap tokens: their namespace, and their expiry.
//!
//! A node that joins a cluster has such a token. bootstrap-signer-controller signs with tokens, and
//! token-cleaner-controller deletes expired ones.
//!
//! Upstream: staging/src/k8s.io/cluster-bootstrap/util/secrets/secrets.go: GetData, GetExpiration.

use std::time::Duration;

use flyball_sdk::Time;
use flyball_sdk::base64;

/// The namespace of the Secrets.
pub const NAMESPACE: &str = "kube-system";
/// The field selector of the Secrets.
pub const SELECTOR: &str = "type=bootstrap.kubernetes.io/token";

/// When a token expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    /// After this time.
    In(Duration),
    /// The token has expired, or its expiry can't be parsed.
    Over,
}

/// Returns when a token expires, from the value of the Secret's key `expiration`; empty if it has none.
pub fn expiry(expiration: &str, now: Time) -> Expiry {
    let bytes = bytes(expiration);
    if bytes.is_empty() {
        return Expiry::Never;
    }
    let time = std::str::from_utf8(&bytes).ok().and_then(parse);
    match time.map(|time| time.from_now(now)) {
        None | Some(Duration::ZERO) => Expiry::Over,
        Some(rest) => Expiry::In(rest),
    }
}

/// Decodes a value of a Secret; malformed ones are empty.
pub fn bytes(value: &str) -> Vec<u8> {
    base64::decode(value).unwrap_or_default()
}

/// Parses a time as Go does for its layout of RFC 3339. Besides times in that format, it takes an hour of one digit and
/// a comma before the fraction. An offset has at most 24 hours and 60 minutes.
fn parse(text: &str) -> Option<Time> {
    let mut text = text.to_owned();
    if text.is_char_boundary(11) && text.as_bytes().get(12) == Some(&b':') {
        text.insert(11, '0');
    }
    if text.as_bytes().get(19) == Some(&b',') {
        text.replace_range(19..20, ".");
    }
    if let Some((_, offset)) = text.get(19..)?.rsplit_once(['+', '-'])
        && !is_offset(offset)
    {
        return None;
    }
    text.parse().ok()
}

/// Whether the hours and minutes of an offset are in Go's limits.
fn is_offset(text: &str) -> bool {
    let parts = text.split_once(':');
    parts.is_some_and(|(hours, minutes)| hours <= "24" && minutes <= "60")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expiry_of(text: &str) -> Expiry {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        expiry(&base64::encode(text.as_bytes()), now)
    }

    #[test]
    fn a_token_without_an_expiry_never_expires() {
        assert_eq!(expiry_of(""), Expiry::Never);
    }

    #[test]
    fn a_token_expires_at_its_expiry() {
        for (text, seconds) in [
            ("2026-01-01T00:00:01Z", 1),
            ("2026-01-02T00:00:00Z", 86_400),
            ("2026-01-01T02:00:00+01:00", 3_600),
            ("2025-12-31T23:00:00-02:30", 5_400),
            ("2026-01-01T1:00:00Z", 3_600),
            ("2026-01-02T00:00:00+24:00", 0),
        ] {
            let expected = match seconds {
                0 => Expiry::Over,
                _ => Expiry::In(Duration::from_secs(seconds)),
            };
            assert_eq!(expiry_of(text), expected, "{text}");
        }
        let fraction = Expiry::In(Duration::from_millis(1_500));
        assert_eq!(expiry_of("2026-01-01T00:00:01.5Z"), fraction);
        assert_eq!(expiry_of("2026-01-01T00:00:01,5Z"), fraction);
        assert_eq!(expiry_of("2026-01-01T0:00:01,5+00:00"), fraction);
        for over in [
            "2026-01-01T00:00:00Z",
            "2025-12-31T23:59:59Z",
            "1999-01-01T00:00:00Z",
        ] {
            assert_eq!(expiry_of(over), Expiry::Over, "{over}");
        }
    }

    #[test]
    fn an_expiry_that_cant_be_parsed_is_over() {
        for text in [
            "tomorrow",
            "2099-01-01",
            "2099-01-01T00:00:00",
            "2099-02-30T00:00:00Z",
            "2099-01-01 00:00:00Z",
            "2099-01-01T00:00:00+25:00",
            "2099-01-01T00:00:00+00:61",
            "2099-01-01T00:00:00z",
            "2099-01-01T00:0:00Z",
            "2099-01-01T00:00:00+0000",
            " 2099-01-01T00:00:00Z",
            "2099-01-01T00:00:00Z ",
            "ééééééé",
            "+",
            "2099-01-0é:00:00Z",
        ] {
            assert_eq!(expiry_of(text), Expiry::Over, "{text}");
        }
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(expiry(&base64::encode(&[0xff]), now), Expiry::Over);
    }

    #[test]
    fn values_are_decoded() {
        assert_eq!(bytes("YWI="), b"ab");
        assert_eq!(bytes("?"), b"");
    }
}
