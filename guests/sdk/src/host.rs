//! The host as a controller sees it: typed reads, writes, events, queues, clock and the rest of the imports.

use std::time::Duration;

use flyball_types::{ApiError, Reference};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::controller::Key;
use crate::error::Error;
use crate::imports::{Imports, MetricOperation, ObjectReference};
use crate::list::List;
use crate::meta::Meta;
use crate::time::Time;
use crate::view::View;
use crate::write::{Answer, BatchBuilder, PatchType, Write};

/// How many objects a page of [`Host::live_each`] holds: as many as client-go's.
pub const LIVE_PAGE: u32 = 500;

/// What a controller can ask for. Made by [`export!`](crate::export) in the sandbox and by
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
        let found = self.imports.get(T::KIND, namespace, name, T::FIELDS)?;
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

/// What the host has seen.
impl Host<'_> {
    /// Whether this object, of this kind and version, was seen to go. Yes is certain; no says nothing. Known of objects on
    /// whose deletion the mapping [`dependents`](crate::describe::Mapping::dependents) found some.
    pub fn saw_go(&self, object: &Reference) -> bool {
        let Reference {
            kind,
            namespace,
            name,
            uid,
        } = object.clone();
        self.imports.gone(&ObjectReference {
            kind: kind.to_string(),
            namespace,
            name,
            uid,
        })
    }
}

/// Reads of the API server itself, for where the cache is not enough.
impl Host<'_> {
    /// The object as it is now; none if it does not exist.
    ///
    /// # Errors
    /// The call failed, or the object is not as the view wants it.
    pub fn live_get<T: View>(&self, namespace: &str, name: &str) -> Result<Option<T>, Error> {
        self.live_get_of(T::KIND, namespace, name, T::FIELDS)
    }

    /// As [`live_get`](Self::live_get), of a kind that is known only when the controller runs.
    ///
    /// # Errors
    /// As [`live_get`](Self::live_get).
    pub fn live_get_of<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<T>, Error> {
        match self.imports.live_get(kind, namespace, name, fields) {
            Ok(bytes) => parse(&bytes, kind, namespace, name).map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The objects as they are now. `parameters` are the API's own: `labelSelector`, `fieldSelector`, `limit`, …
    ///
    /// # Errors
    /// The call failed, or an object is not as the view wants it.
    pub fn live_list<T: View>(
        &self,
        namespace: &str,
        parameters: &[(&str, &str)],
    ) -> Result<LiveList<T>, Error> {
        self.live_page(T::KIND, namespace, parameters, T::FIELDS)
    }

    /// Hands out one after the other all objects of a kind that lie in a namespace now (empty: in all), with no more than
    /// [`LIVE_PAGE`] of them in memory; of each, these fields and what is always read. For a kind that is known only when
    /// the controller runs; for one of a view, give its `KIND` and `FIELDS`.
    ///
    /// # Errors
    /// A call failed, or an object is not a `T`; and what `visit` answers, which ends the list.
    pub fn live_each<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        fields: &[&str],
        mut visit: impl FnMut(T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let limit = LIVE_PAGE.to_string();
        let mut token = String::new();
        loop {
            let mut parameters = vec![("limit", limit.as_str())];
            if !token.is_empty() {
                parameters.push(("continue", &token));
            }
            let page: LiveList<T> = self.live_page(kind, namespace, &parameters, fields)?;
            page.items.into_iter().try_for_each(&mut visit)?;
            if page.metadata.continue_token.is_empty() {
                return Ok(());
            }
            token = page.metadata.continue_token;
        }
    }

    fn live_page<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespace: &str,
        parameters: &[(&str, &str)],
        fields: &[&str],
    ) -> Result<LiveList<T>, Error> {
        let parameters: Vec<_> = parameters
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let bytes = self
            .imports
            .live_list(kind, namespace, &parameters, fields)?;
        flyball_types::read(&bytes)
            .map_err(|error| Error::Malformed(format!("a list of {kind}"), error))
    }

    /// The answer to a GET of a path, such as `/apis/metrics.k8s.io/v1beta1/pods`. Granted by the import `raw`.
    ///
    /// # Errors
    /// The call failed, or the answer is not a `T`.
    pub fn live_raw<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let bytes = self.imports.live_raw(path)?;
        flyball_types::read(&bytes)
            .map_err(|error| Error::Malformed(format!("the answer to {path}"), error))
    }
}

/// A list as the API server answers it.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct LiveList<T> {
    /// The list's own resource version and continue token.
    #[serde(default)]
    pub metadata: ListMeta,
    /// The objects.
    #[serde(default = "Vec::new")]
    pub items: Vec<T>,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListMeta {
    /// The version as of which the list is.
    pub resource_version: String,
    /// Empty, or where the next page starts.
    #[serde(rename = "continue")]
    pub continue_token: String,
}

/// Writes.
impl<'a> Host<'a> {
    /// Writes that the host runs side by side.
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
            .unwrap_or_else(|| Err(ApiError::unanswered("the host gave no answer")))
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

    /// Runs [`Write::modify`]. The host builds what it puts from its cache where the watch of the kind declares all fields
    /// (`.`), or for a status at least `metadata`; otherwise it reads the object first, which is a call more.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Conflict` if the object has changed since it was read.
    pub fn modify(
        &self,
        kind: &str,
        meta: &Meta,
        change: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        self.write(Write::modify(kind, meta, change))
    }

    /// Replaces the status of the object that was read with this metadata: `status` is the whole of it.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    pub fn update_status(
        &self,
        kind: &str,
        meta: &Meta,
        status: &impl Serialize,
    ) -> Result<Answer, ApiError> {
        #[derive(Serialize)]
        struct Change<'a, S> {
            status: &'a S,
        }
        self.write(Write::modify(kind, meta, &Change { status }).on("status"))
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

/// Events.
impl Host<'_> {
    /// Records that something went as it should.
    pub fn event(&self, about: &ObjectReference, reason: &str, message: &str) {
        self.imports.emit(about, "Normal", reason, message);
    }

    /// Records that something did not go as it should.
    pub fn warn(&self, about: &ObjectReference, reason: &str, message: &str) {
        self.imports.emit(about, "Warning", reason, message);
    }
}

/// The plugin's own queues.
impl Host<'_> {
    /// Adds a key at once.
    ///
    /// # Errors
    /// The plugin has no such queue.
    pub fn enqueue(&self, queue: &str, key: &Key) -> Result<(), ApiError> {
        self.imports.enqueue(queue, &key.to_string(), 0)
    }

    /// Adds a key later. Of several pending times the earliest holds.
    ///
    /// # Errors
    /// The plugin has no such queue.
    pub fn enqueue_after(&self, queue: &str, key: &Key, delay: Duration) -> Result<(), ApiError> {
        self.imports.enqueue(queue, &key.to_string(), millis(delay))
    }
}

/// Clock, randomness, metrics and configuration.
impl Host<'_> {
    /// The wall clock.
    pub fn now(&self) -> Time {
        self.imports.now()
    }

    /// As many letters and digits as the API server's `generateName` appends, of the same alphabet.
    pub fn random_suffix(&self, length: u32) -> String {
        crate::hash::safe_letters(&self.imports.random(length))
    }

    /// A number below `bound`, each about as likely; 0 if `bound` is 0.
    pub fn random_below(&self, bound: u32) -> u32 {
        let bytes: [u8; 8] = self.imports.random(8).try_into().unwrap_or_default();
        (u64::from_le_bytes(bytes) % u64::from(bound.max(1))) as u32
    }

    /// Adds to a counter of the plugin's own; `labels` in the order in which they were declared.
    pub fn count(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metric(MetricOperation::Add, metric, labels, value);
    }

    /// Sets a gauge of the plugin's own.
    pub fn gauge(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metric(MetricOperation::Set, metric, labels, value);
    }

    /// Observes a value in a histogram of the plugin's own.
    pub fn observe(&self, metric: &str, labels: &[&str], value: f64) {
        self.imports
            .metric(MetricOperation::Observe, metric, labels, value);
    }

    /// The operator's value of a key, else its declared default, else none.
    pub fn config(&self, key: &str) -> Option<String> {
        self.imports.config(key)
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
        self.imports.sign_jwt(key, &claims)
    }

    /// The claims of a token that was signed by this key; whether they still hold is not looked at.
    ///
    /// # Errors
    /// As [`sign_jwt`](Self::sign_jwt); `Unauthorized` if another key, or nobody, has signed it; or the claims are not a `T`.
    pub fn verify_jwt<T: DeserializeOwned>(&self, key: &str, token: &str) -> Result<T, Error> {
        let claims = self.imports.verify_jwt(key, token)?;
        flyball_types::read(&claims)
            .map_err(|error| Error::Malformed("the claims of a token".into(), error))
    }
}

/// The memo: what the host keeps for the plugin's instances. It may be emptied between any two calls, so it holds only what
/// can be derived again or done without.
impl Host<'_> {
    /// What was remembered under this key; none if nothing is, or if it is no `T`.
    pub fn recall<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let (value, _) = self.imports.memo_get(key)?;
        flyball_types::read(&value).ok()
    }

    /// Remembers a value under a key, in place of what was, until the object of this UID is deleted (empty: none).
    ///
    /// # Errors
    /// The memo is full, or another instance was quicker.
    pub fn remember(
        &self,
        key: &str,
        value: &impl Serialize,
        object_uid: &str,
    ) -> Result<(), ApiError> {
        self.put(key, value, object_uid, Duration::ZERO)
    }

    /// As [`remember`](Self::remember), for this time.
    ///
    /// # Errors
    /// As [`remember`](Self::remember).
    pub fn remember_for(
        &self,
        key: &str,
        value: &impl Serialize,
        time: Duration,
    ) -> Result<(), ApiError> {
        self.put(key, value, "", time)
    }

    fn put(
        &self,
        key: &str,
        value: &impl Serialize,
        object_uid: &str,
        time: Duration,
    ) -> Result<(), ApiError> {
        let version = self.imports.memo_get(key).map_or(0, |(_, version)| version);
        let value = serde_json::to_vec(value).expect("a map with string keys is valid JSON");
        self.imports
            .memo_put(key, version, &value, object_uid, millis(time))
            .map(drop)
    }

    /// Remembers nothing under this key.
    pub fn unremember(&self, key: &str) {
        self.imports.memo_remove(key);
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

fn parse<T: DeserializeOwned>(
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
    fn a_long_live_list_is_read_page_by_page() {
        let count = 2 * super::LIVE_PAGE + 1;
        let pod = |n| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{n:04}"), "namespace": "a"}});
        let cluster = Cluster::with((0..count).map(pod));
        let mut names = Vec::new();
        let visit = |pod: serde_json::Value| {
            names.push(pod["metadata"]["name"].as_str().unwrap().to_owned());
            Ok(())
        };
        cluster
            .host()
            .live_each("v1/Pod", "a", &["spec"], visit)
            .unwrap();
        assert_eq!(
            names,
            (0..count).map(|n| format!("{n:04}")).collect::<Vec<_>>()
        );
        assert_eq!(
            cluster.live_reads(),
            ["list v1/Pod a", "list v1/Pod a", "list v1/Pod a"]
        );
    }

    #[test]
    fn what_is_remembered_is_recalled_until_it_is_replaced_or_removed() {
        let cluster = Cluster::new();
        let host = cluster.host();
        assert_eq!(host.recall::<u32>("a"), None);
        host.remember("a", &1, "").unwrap();
        host.remember("a", &2, "uid-1").unwrap();
        assert_eq!(
            (
                host.recall("a"),
                host.recall::<String>("a"),
                host.recall::<u32>("b")
            ),
            (Some(2), None, None)
        );
        host.unremember("a");
        assert_eq!(host.recall::<u32>("a"), None);
    }

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
