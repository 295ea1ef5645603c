//! What a guest can ask of its host, in bytes: the world's imports as one trait.
//!
//! In the sandbox it is the WIT imports; natively it is the in-memory API server of [`testing`](crate::testing). Controllers
//! do not use it: they call the typed functions of [`Host`](crate::Host), which stand on it.

use flyball_types::ApiError;

use crate::log::Level;
use crate::time::Time;
use crate::write::Batch;

/// The world's imports. `wit/` says what each function does.
pub trait Imports {
    /// `lister.get`: an object of the cache.
    fn get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<Vec<u8>>, ApiError>;
    /// `lister.query`: a list of the cache, to be read page by page.
    fn open(&self, question: &Question) -> Box<dyn Pages + '_>;

    /// `lister.gone`: whether the object was seen to go.
    fn gone(&self, object: &ObjectReference) -> bool;

    /// `reader.get`: an object of the API server.
    fn live_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Vec<u8>, ApiError>;
    /// `reader.list`: a list of the API server.
    fn live_list(
        &self,
        kind: &str,
        namespace: &str,
        parameters: &[(String, String)],
        fields: &[&str],
    ) -> Result<Vec<u8>, ApiError>;
    /// `reader.raw`: the answer to a GET of a path.
    fn live_raw(&self, path: &str) -> Result<Vec<u8>, ApiError>;
    /// `discovery.kinds`: what the server serves.
    fn kinds(&self) -> Result<Vec<u8>, ApiError>;

    /// `writer.batch`: runs the writes; one result for each.
    fn run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>>;

    /// `events.emit`.
    fn emit(&self, about: &ObjectReference, event_type: &str, reason: &str, message: &str);

    /// `queue.add`, or `queue.add-after` where there is a delay.
    fn enqueue(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError>;
    /// `queue.forget`.
    fn forget(&self, queue: &str, key: &str) -> Result<(), ApiError>;
    /// `queue.requeues`.
    fn requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError>;

    /// `clock.now`.
    fn now(&self) -> Time;
    /// `random.bytes`.
    fn random(&self, count: u32) -> Vec<u8>;
    /// `log.write`.
    fn log(&self, level: Level, message: &str, fields: &[(String, String)]);
    /// `log.enabled`.
    fn logs(&self, level: Level) -> bool;

    /// `metrics.add`, `metrics.set` or `metrics.observe`.
    fn metric(&self, operation: MetricOperation, name: &str, labels: &[&str], value: f64);
    /// `config.get`.
    fn config(&self, key: &str) -> Option<String>;

    /// `memo.get`: the value and its version.
    fn memo_get(&self, key: &str) -> Option<(Vec<u8>, u32)>;
    /// `memo.put`: the new version.
    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: &[u8],
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError>;
    /// `memo.remove`.
    fn memo_remove(&self, key: &str);

    /// `signer.sign-jwt`.
    fn sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError>;
    /// `signer.verify-jwt`.
    fn verify_jwt(&self, key: &str, token: &str) -> Result<Vec<u8>, ApiError>;
    /// `signer.sign-certificate`.
    fn sign_certificate(&self, key: &str, request: &str, options: &str)
    -> Result<String, ApiError>;
    /// `signer.trust-bundle`.
    fn trust_bundle(&self, key: &str) -> Result<String, ApiError>;
}

/// The pages of one query, all of the same snapshot.
pub trait Pages {
    /// The next objects, as a JSON array; empty at the end.
    fn page(&self, limit: u32) -> Result<Vec<u8>, ApiError>;
    /// How many objects match.
    fn count(&self) -> Result<u32, ApiError>;
}

/// A question to the cache. What is `None` does not narrow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The kind, as in `v1/Pod`; `*` for all that are discovered.
    pub kind: String,
    /// Only those of this namespace.
    pub namespace: Option<String>,
    /// Only those whose labels match.
    pub label_selector: Option<String>,
    /// Only those of which this index holds this value.
    pub index: Option<(String, String)>,
    /// Only the one that has this UID.
    pub uid: Option<String>,
    /// Only those that name this UID as an owner.
    pub owner: Option<String>,
    /// Only those that name this UID as their controller.
    pub controller: Option<String>,
    /// Only those that name no controller.
    pub orphans: bool,
    /// What comes back of each; everything that was declared, if empty.
    pub fields: Vec<String>,
    /// Of which paths the values make a row of each, which then comes back in its place; none, if empty.
    pub columns: Vec<String>,
}

/// Names an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// Its kind, as in `v1/Pod`.
    pub kind: String,
    /// Empty if it is cluster-scoped.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Empty if it is not known.
    pub uid: String,
}

/// What is done to a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricOperation {
    /// Adds to a counter.
    Add,
    /// Sets a gauge.
    Set,
    /// Observes a value in a histogram.
    Observe,
}
