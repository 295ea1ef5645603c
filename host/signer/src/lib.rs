//! Signs tokens and certificates for guests with keys that the host holds by name. A guest receives a token or a
//! certificate, never a key.
//!
//! Tokens are JSON Web Tokens in compact form, as kube-apiserver expects them of service accounts: `alg` is the key's
//! only algorithm, `kid` the hash of its public half. Certificates are signed by the authority of a signer: see
//! [`certificate`].

mod authority;
mod certificate;
mod key;
mod request;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flyball_plugin::{CertificateTemplate, Metered};
use flyball_policy::Certified;
use flyball_policy::imports::{MayUseKey, MayUseSigner};
use flyball_types::{ApiError, Effect, printable};
use ring::error::Unspecified;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::authority::Authority;
pub use self::authority::AuthorityError;
pub use self::key::KeyError;
use self::key::{PrivateKey, PublicKey};

/// The maximum size of claims and of a token, in bytes. Tokens of Kubernetes take 2 KiB.
const MAX_TOKEN: usize = 64 << 10;

/// The host's keys and authorities, by name.
#[derive(Default)]
pub struct Signer {
    keys: BTreeMap<String, Key>,
    authorities: BTreeMap<String, Authority>,
}

/// The host's keys and authorities for one plugin. Each use takes the policy's decision. The functions compute for
/// milliseconds, and the functions of authorities read files, so they are called on threads that may block.
pub struct SigningKeys {
    signer: Arc<Signer>,
    /// One signature at a time.
    turns: Arc<Semaphore>,
}

/// The keys of one name.
struct Key {
    private: PrivateKey,
    /// Verify too: the keys before and after a rotation.
    others: Vec<PublicKey>,
}

/// The fields of a token's header that decide whether it is valid.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a reader must know. None is known here.
    crit: Option<IgnoredAny>,
}

impl Signer {
    /// Adds the keys of a PEM file under a name, and replaces the name's earlier keys. The first private key signs; all
    /// keys of the file, public ones too, verify.
    ///
    /// # Errors
    /// The file holds no private key that can sign.
    pub fn add(&mut self, name: &str, pem: &[u8]) -> Result<(), KeyError> {
        let (private, others) = key::read(pem)?;
        self.keys.insert(name.into(), Key { private, others });
        Ok(())
    }

    /// Adds the authority of a signer, from files in PEM with one certificate and its private key. They are read again
    /// when they have changed. Blocks.
    ///
    /// # Errors
    /// The files hold no authority that can sign.
    pub fn add_authority(
        &mut self,
        signer: &str,
        certificate: &Path,
        key: &Path,
    ) -> Result<(), AuthorityError> {
        let authority = Authority::open(certificate, key)?;
        self.authorities.insert(signer.into(), authority);
        Ok(())
    }

    fn key(&self, name: &str) -> Result<&Key, ApiError> {
        let missing = || ApiError::not_found(format!("the host holds no key named `{name}`"));
        self.keys.get(name).ok_or_else(missing)
    }

    fn authority(&self, signer: &str) -> Result<&Authority, ApiError> {
        let missing = || {
            let signer = printable(signer);
            ApiError::not_found(format!(
                "the host holds no authority for the signer `{signer}`"
            ))
        };
        self.authorities.get(signer).ok_or_else(missing)
    }
}

impl SigningKeys {
    pub fn new(signer: Arc<Signer>) -> Self {
        Self {
            signer,
            turns: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits until no other signature of the plugin is computed. The next one waits until the permit is dropped.
    pub async fn turn(&self) -> OwnedSemaphorePermit {
        let turn = self.turns.clone().acquire_owned().await;
        turn.expect("the semaphore is never closed")
    }

    /// Returns a token with these claims, which are a JSON object.
    pub fn sign_jwt(&self, granted: &MayUseKey, claims: &[u8]) -> Result<String, ApiError> {
        let name = granted.key();
        let key = self.signer.key(name)?;
        check_size("claims", claims.len())?;
        serde_json::from_slice::<Map<String, Value>>(claims).map_err(|error| {
            ApiError::invalid(format!("the claims are not a JSON object: {error}"))
        })?;
        let failed = |_| {
            ApiError::internal(
                Effect::None,
                format!("signing with the key `{name}` failed"),
            )
        };
        key.token(claims).map_err(failed)
    }

    /// Returns the claims of a token that this key signed. The guest checks whether the token has expired.
    pub fn verify_jwt(&self, granted: &MayUseKey, token: &str) -> Result<Vec<u8>, ApiError> {
        let name = granted.key();
        let key = self.signer.key(name)?;
        check_size("token", token.len())?;
        let claims = key.claims(token);
        let other =
            || ApiError::unauthorized(format!("the token was not signed by the key `{name}`"));
        claims.ok_or_else(other)
    }

    /// Returns the certificates of a signer's authority in DER.
    pub fn certificate_authority(&self, granted: &MayUseSigner) -> Result<Vec<Vec<u8>>, ApiError> {
        let authority = self.signer.authority(granted.signer())?;
        Ok(vec![authority.issuer().certificate.clone()])
    }

    /// Returns a certificate in DER that a signer's authority signed.
    pub fn sign_certificate(
        &self,
        granted: &MayUseSigner,
        template: &CertificateTemplate,
    ) -> Result<Vec<u8>, ApiError> {
        certificate::check_size(template)?;
        let certified = Certified {
            subject: &template.subject,
            dns_names: &template.dns_names,
            email_addresses: &template.email_addresses,
            ip_addresses: &template.ip_addresses,
            uris: &template.uris,
            extended_key_usages: &template.extended_key_usages,
        };
        granted.check_certificate(certified)?;
        let authority = self.signer.authority(granted.signer())?;
        certificate::issue(&authority.issuer(), template, SystemTime::now())
    }
}

/// Does work, and measures the CPU time that it takes this thread.
pub fn metered<T>(work: impl FnOnce() -> Result<T, ApiError>) -> Metered<T> {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let started = now();
    let result = work();
    Metered {
        result,
        cpu_time: now().saturating_sub(started),
    }
}

/// Refuses texts that can't be tokens, before they are parsed.
fn check_size(what: &str, bytes: usize) -> Result<(), ApiError> {
    if bytes > MAX_TOKEN {
        return Err(ApiError::full(format!(
            "the {what} of a token may have {MAX_TOKEN} bytes, and has {bytes}"
        )));
    }
    Ok(())
}

impl Key {
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

    /// Returns the claims of a token, if one of the keys signed it.
    fn claims(&self, token: &str) -> Option<Vec<u8>> {
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        let (signature, claims) = (decode(signature)?, decode(claims)?);
        let mut keys = std::iter::once(self.private.public()).chain(&self.others);
        // The key decides the algorithm, never the token alone.
        let is_signed = keys.any(|key| {
            header.alg == key.algorithm()
                && header.kid.as_ref().is_none_or(|id| id == key.id())
                && key.verifies(signed.as_bytes(), &signature)
        });
        (is_signed && header.crit.is_none()).then_some(claims)
    }
}

/// Prints the names alone.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.keys.keys().chain(self.authorities.keys());
        f.debug_set().entries(names).finish()
    }
}

#[cfg(test)]
mod tests;
