//! The host as a controller sees it: typed reads, writes, events, clock and the rest of the imports.

use std::time::Duration;

use flyball_types::{ApiError, Reference};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::controller::Key;
use crate::error::Error;
use crate::event::Event;
use crate::imports::{Imports, ObjectReference};
use crate::list::List;
use crate::meta::Meta;
use crate::reader::Reader;
use crate::services::{Memo, Metrics, Queue};
use crate::time::Time;
use crate::view::View;
use crate::write::{Answer, BatchBuilder, PatchType, Write};

/// What a controller can ask for. [`export!`](crate::export) creates it in the sandbox, and
/// [`testing::Cluster`](crate::testing::Cluster) in tests.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    imports: &'a dyn Imports,
}

impl<'a> Host<'a> {
    /// A host on these imports.
    pub fn new(imports: &'a dyn Imports) -> Self {
        Self { imports }
    }

    /// The imports themselves, in bytes.
    pub fn imports(&self) -> &'a dyn Imports {
        self.imports
    }
}

/// Reads of the cache.
impl<'a> Host<'a> {
    /// The object of this name; `namespace` is empty if it is cluster-scoped.
    ///
    /// # Errors
    /// The plugin may not read it, or it is not as the view wants it.
    pub fn get<T: View>(&self, namespace: &str, name: &str) -> Result<Option<T>, Error> {
        let found = self
            .imports
            .lister_get(T::KIND, namespace, name, T::FIELDS)?;
        found
            .map(|bytes| parse(&bytes, T::KIND, namespace, name))
            .transpose()
    }

    /// The object of this key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_key<T: View>(&self, key: &Key) -> Result<Option<T>, Error> {
        self.get(&key.namespace, &key.name)
    }

    /// The objects of the view's kind, to be narrowed and then read: `host.list::<Pod>().namespace(ns).orphans().all()?`.
    pub fn list<T: View>(&self) -> List<'a, T> {
        List::new(self.imports)
    }
}

/// What the host has observed.
impl Host<'_> {
    /// True only if the deletion of this object, of this kind and UID, was observed; false means unknown. The host remembers
    /// objects on whose deletion the mapping [`dependents`](crate::describe::Mapping::dependents) found any.
    pub fn deletion_observed(&self, object: &Reference) -> bool {
        let Reference {
            kind,
            namespace,
            name,
            uid,
        } = object.clone();
        self.imports.lister_deletion_observed(&ObjectReference {
            kind: kind.to_string(),
            namespace,
            name,
            uid,
        })
    }
}

/// Interfaces with a handle of their own.
impl<'a> Host<'a> {
    /// Live reads, which ask the API server.
    pub fn reader(&self) -> Reader<'a> {
        Reader::new(self.imports)
    }

    /// The plugin's workqueues.
    pub fn queue(&self) -> Queue<'a> {
        Queue {
            imports: self.imports,
        }
    }

    /// The plugin's own metrics.
    pub fn metrics(&self) -> Metrics<'a> {
        Metrics {
            imports: self.imports,
        }
    }

    /// What the host keeps for the plugin's instances.
    pub fn memo(&self) -> Memo<'a> {
        Memo {
            imports: self.imports,
        }
    }
}

/// Writes.
impl<'a> Host<'a> {
    /// Writes that the host runs concurrently.
    pub fn batch(&self) -> BatchBuilder<'a> {
        BatchBuilder::new(self.imports)
    }

    /// Runs one write.
    ///
    /// # Errors
    /// The server's refusal, or the host's.
    pub fn write(&self, write: Write) -> Result<Answer, ApiError> {
        self.batch()
            .with(write)
            .run()
            .pop()
            .unwrap_or_else(|| Err(ApiError::timeout("the host returned no result")))
    }

    /// Runs [`Write::create`]; nothing is wanted back.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn create(
        &self,
        kind: &str,
        namespace: &str,
        object: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::create(kind, namespace, object))
    }

    /// Runs [`Write::update`]. The host builds the whole object from its cache where the watch of the kind declares all
    /// fields (`.`); otherwise it reads the object first, which is one more call.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Conflict` if the object has changed since it was read.
    pub fn update(
        &self,
        kind: &str,
        meta: &Meta,
        change: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::update(kind, meta, change))
    }

    /// Runs [`Write::update_status`]. The host builds the whole object from its cache where the watch of the kind declares
    /// `metadata`; otherwise it reads the object first, which is one more call.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn update_status(
        &self,
        kind: &str,
        meta: &Meta,
        status: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::update_status(kind, meta, status))
    }

    /// Runs [`Write::patch`].
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn patch(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch_type: PatchType,
        patch: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::patch(kind, namespace, name, patch_type, patch))
    }

    /// Runs [`Write::delete_exactly`].
    ///
    /// # Errors
    /// As [`write`](Self::write); `Conflict` if another object has taken the name.
    pub fn delete(&self, kind: &str, meta: &Meta) -> Result<Answer, ApiError> {
        self.write(Write::delete_exactly(kind, meta))
    }
}

/// Events, clock, randomness and configuration.
impl Host<'_> {
    /// Emits an event. It never fails and never waits.
    pub fn emit(&self, event: Event<'_>) {
        let Event {
            about,
            event_type,
            reason,
            message,
            options,
        } = event;
        self.imports
            .events_emit(about, event_type, reason, message, &options);
    }

    /// The wall clock.
    pub fn now(&self) -> Time {
        self.imports.clock_now()
    }

    /// As many letters and digits as the API server's `generateName` appends, of the same alphabet.
    pub fn random_suffix(&self, length: u32) -> String {
        crate::hash::safe_letters(&self.imports.random_bytes(length))
    }

    /// A number below `bound`, each about as likely; 0 if `bound` is 0.
    pub fn random_below(&self, bound: u32) -> u32 {
        let bytes: [u8; 8] = self.imports.random_bytes(8).try_into().unwrap_or_default();
        (u64::from_le_bytes(bytes) % u64::from(bound.max(1))) as u32
    }

    /// The operator's value of a key, else its declared default, else none.
    pub fn config(&self, key: &str) -> Option<String> {
        self.imports.config_get(key)
    }
}

/// Signing, with keys that the host holds and the operator names. Granted by the import `signer`.
impl Host<'_> {
    /// A JSON Web Token with these claims, in compact form.
    ///
    /// # Errors
    /// The plugin may not use the key, or the host holds none of that name.
    pub fn sign_jwt(&self, key: &str, claims: &impl Serialize) -> Result<String, ApiError> {
        let claims = serde_json::to_vec(claims).expect("a map with string keys is valid JSON");
        self.imports.signer_sign_jwt(key, &claims)
    }

    /// The claims of a token that was signed by this key; whether they still hold is not looked at.
    ///
    /// # Errors
    /// As [`sign_jwt`](Self::sign_jwt); `Unauthorized` if another key, or nobody, has signed it; or the claims are not a `T`.
    pub fn verify_jwt<T: DeserializeOwned>(&self, key: &str, token: &str) -> Result<T, Error> {
        let claims = self.imports.signer_verify_jwt(key, token)?;
        flyball_types::read(&claims)
            .map_err(|error| Error::Malformed("the claims of a token".into(), error))
    }
}

/// Whole milliseconds, rounded up and capped at 49 days.
pub(crate) fn millis(duration: Duration) -> u32 {
    let millis = duration
        .as_secs()
        .saturating_mul(1000)
        .saturating_add(duration.subsec_nanos().div_ceil(1_000_000).into());
    u32::try_from(millis).unwrap_or(u32::MAX)
}

pub(crate) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<T, Error> {
    flyball_types::read(bytes)
        .map_err(|error| Error::Malformed(format!("{kind} {}", Key::new(namespace, name)), error))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::Cluster;

    #[test]
    fn a_token_is_verified_by_the_key_that_signed_it_and_by_no_other() {
        let cluster = Cluster::new();
        cluster.add_key("a");
        cluster.add_key("b");
        let host = cluster.host();
        let token = host.sign_jwt("a", &json!({"sub": "me"})).unwrap();
        assert_eq!(
            host.verify_jwt::<Value>("a", &token).unwrap(),
            json!({"sub": "me"})
        );
        for (key, token, status) in [
            ("b", token.as_str(), 401),
            ("a", "made up", 401),
            ("c", token.as_str(), 404),
        ] {
            assert_eq!(
                host.verify_jwt::<Value>(key, token)
                    .unwrap_err()
                    .api()
                    .unwrap()
                    .status,
                status
            );
        }
        assert!(host.sign_jwt("c", &json!({})).unwrap_err().is_not_found());
    }
}
