//! The tokens that sign.
//!
//! Upstream: pkg/controller/bootstrap/util.go: validateSecretForSigning.
//! Upstream: staging/src/k8s.io/cluster-bootstrap/util/secrets/secrets.go: ParseName.

use flyball_bootstrap_tokens::{Expiry, bytes, expiry};
use flyball_sdk::prelude::*;

/// The prefix of a Secret's name. The id of the token follows.
const PREFIX: &str = "bootstrap-token-";
/// The length of a token's id.
const ID: usize = 6;

/// The Secret of a token. Values are in base64.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Secret")]
pub struct Token {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    #[view(path = "data['token-id']")]
    id: String,
    #[view(path = "data['token-secret']")]
    secret: String,
    #[view(path = "data.expiration")]
    expiration: String,
    /// Whether the token may sign, as text.
    #[view(path = "data['usage-bootstrap-signing']")]
    signs: String,
}

impl Token {
    /// Returns the token's id and secret; none if it may not sign, has expired or is malformed.
    pub fn for_signing(&self, now: Time) -> Option<(&str, Vec<u8>)> {
        let id = self.meta.name.strip_prefix(PREFIX)?;
        let is_letter = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        let secret = bytes(&self.secret);
        let is_valid = id.len() == ID
            && id.bytes().all(is_letter)
            && bytes(&self.id) == id.as_bytes()
            && !secret.is_empty()
            && expiry(&self.expiration, now) != Expiry::Over
            && bytes(&self.signs) == b"true";
        is_valid.then_some((id, secret))
    }
}

#[cfg(test)]
mod tests {
    use flyball_sdk::base64;
    use flyball_sdk::testing::view;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    /// The id and the secret of a valid token after these changes to its values.
    fn with(name: &str, changes: &[(&str, &str)]) -> Option<(String, Vec<u8>)> {
        let mut data = json!({});
        let valid = [
            ("token-id", "abc123"),
            ("token-secret", "secret"),
            ("usage-bootstrap-signing", "true"),
        ];
        for (key, value) in valid.iter().chain(changes) {
            data[key] = base64::encode(value.as_bytes()).into();
        }
        let token: Token = view(json!({"metadata": {"name": name}, "data": data}));
        let signing = token.for_signing(NOW.parse().unwrap());
        signing.map(|(id, secret)| (id.to_owned(), secret))
    }

    fn signs(changes: &[(&str, &str)]) -> bool {
        with("bootstrap-token-abc123", changes).is_some()
    }

    #[test]
    fn a_valid_token_signs() {
        let token = with("bootstrap-token-abc123", &[("token-secret", "s")]);
        assert_eq!(token, Some(("abc123".into(), b"s".to_vec())));
        assert!(signs(&[("expiration", "2026-01-01T00:00:01Z")]));
        assert!(signs(&[("usage-bootstrap-authentication", "false")]));
    }

    #[test]
    fn the_name_must_be_that_of_the_id() {
        for (name, id) in [
            ("bootstrap-token-abc124", "abc123"),
            ("bootstrap-token-abc12", "abc12"),
            ("bootstrap-token-abc1234", "abc1234"),
            ("bootstrap-token-abc-12", "abc-12"),
            ("bootstrap-token-abc.12", "abc.12"),
            ("token-abc123", "abc123"),
            ("abc123", "abc123"),
        ] {
            assert_eq!(with(name, &[("token-id", id)]), None, "{name}");
        }
        assert!(!signs(&[("token-id", "ABC123")]));
        assert!(!signs(&[("token-id", "")]));
    }

    #[test]
    fn a_token_without_a_secret_that_has_expired_or_that_may_not_sign_does_not() {
        assert!(!signs(&[("token-secret", "")]));
        for expiration in [NOW, "2020-01-01T00:00:00Z", "tomorrow"] {
            assert!(!signs(&[("expiration", expiration)]), "{expiration}");
        }
        for usage in ["false", "", "True", "true "] {
            assert!(!signs(&[("usage-bootstrap-signing", usage)]), "{usage:?}");
        }
    }
}
