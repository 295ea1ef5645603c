//! Signs for guests with keys that the host holds by name: a guest gets a token, never a key.
//!
//! Tokens are JSON Web Tokens in compact form, made as kube-apiserver expects those of service accounts: `alg` is the key's
//! one algorithm, `kid` the hash of its public half.

mod der;
mod key;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use flyball_types::ApiError;
use ring::error::Unspecified;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

pub use self::key::KeyError;
use self::key::{PrivateKey, PublicKey};
use crate::policy::PluginPolicy;

/// The host's keys, by name.
#[derive(Default)]
pub struct Signer {
    keys: BTreeMap<String, Key>,
}

/// The keys that one plugin may use.
pub(crate) struct Granted {
    signer: Arc<Signer>,
    policy: Arc<PluginPolicy>,
}

/// What one name stands for.
struct Key {
    /// What signs.
    private: PrivateKey,
    /// What else was signed by: keys that came before it, or are to come after it.
    others: Vec<PublicKey>,
}

/// What of a token's header matters.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions without which the token must not be understood. None is known here.
    crit: Option<IgnoredAny>,
}

impl Signer {
    /// Adds the keys of a PEM file under a name, in place of what it stood for. The first private key signs; all keys of
    /// the file, public ones too, verify.
    ///
    /// # Errors
    /// The text holds no private key that can sign.
    pub fn add(&mut self, name: &str, pem: &[u8]) -> Result<(), KeyError> {
        let (private, others) = key::read(pem)?;
        self.keys.insert(name.into(), Key { private, others });
        Ok(())
    }

    fn key(&self, name: &str) -> Result<&Key, ApiError> {
        let missing = || {
            ApiError::new(
                404,
                "NotFound",
                format!("the host holds no key named `{name}`"),
            )
        };
        self.keys.get(name).ok_or_else(missing)
    }
}

impl Granted {
    /// What a plugin of this policy may sign.
    pub(crate) fn new(signer: Arc<Signer>, policy: Arc<PluginPolicy>) -> Self {
        Self { signer, policy }
    }

    /// A token with these claims, a JSON object.
    pub(crate) fn sign_jwt(&self, name: &str, claims: &[u8]) -> Result<String, ApiError> {
        let key = self.key(name)?;
        serde_json::from_slice::<Map<String, Value>>(claims).map_err(|error| {
            ApiError::invalid(format!("the claims are not a JSON object: {error}"))
        })?;
        let failed = |_| {
            ApiError::new(
                500,
                "InternalError",
                format!("signing with the key `{name}` failed"),
            )
        };
        key.token(claims).map_err(failed)
    }

    /// The claims of a token that this key has signed. Whether they still hold is for the guest to say.
    pub(crate) fn verify_jwt(&self, name: &str, token: &str) -> Result<Bytes, ApiError> {
        let claims = self.key(name)?.claims(token);
        let other = || {
            ApiError::new(
                401,
                "Unauthorized",
                format!("the token was not signed by the key `{name}`"),
            )
        };
        claims.map(Bytes::from).ok_or_else(other)
    }

    /// A certificate for a request; no key signs any yet.
    pub(crate) fn sign_certificate(&self, name: &str) -> Result<String, ApiError> {
        self.key(name)?;
        Err(ApiError::new(
            501,
            "NotImplemented",
            format!("the host signs no certificates with the key `{name}`"),
        ))
    }

    /// The certificates that go with a key; none has any yet.
    pub(crate) fn trust_bundle(&self, name: &str) -> Result<String, ApiError> {
        self.key(name)?;
        Err(ApiError::new(
            501,
            "NotImplemented",
            format!("the host has no certificates of the key `{name}`"),
        ))
    }

    /// Granted first, then there: who may not use a key is not told whether there is one.
    fn key(&self, name: &str) -> Result<&Key, ApiError> {
        self.policy.check_key(name)?;
        self.signer.key(name)
    }
}

impl Key {
    /// A token with these claims.
    fn token(&self, claims: &[u8]) -> Result<String, Unspecified> {
        let public = self.private.public();
        let header = format!(
            r#"{{"alg":"{}","kid":"{}"}}"#,
            public.algorithm(),
            public.id()
        );
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let signature = self.private.sign(signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token, if it was signed by one of the keys.
    fn claims(&self, token: &str) -> Option<Vec<u8>> {
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        let (signature, claims) = (decode(signature)?, decode(claims)?);
        let mut keys = std::iter::once(self.private.public()).chain(&self.others);
        // The key says which algorithm is right, never the token alone.
        let is_signed = keys.any(|key| {
            header.alg == key.algorithm()
                && header.kid.as_ref().is_none_or(|id| id == key.id())
                && key.has_signed(signed.as_bytes(), &signature)
        });
        (is_signed && header.crit.is_none()).then_some(claims)
    }
}

/// The names alone.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
