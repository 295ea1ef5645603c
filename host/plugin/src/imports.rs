//! What a guest may ask for during one call: the world's imports, as a trait that the manager answers. One value lives for
//! one call, so that it knows which key it serves and can commit or drop what the call staged.
//!
//! Text and bytes come from a guest and are checked by who answers, not before.

use std::time::SystemTime;

use bytes::Bytes;
use flyball_types::ApiError;
use futures::future::BoxFuture;

/// Answers the imports of one call. Functions that are not futures never wait.
pub trait Imports: Send + Sync + 'static {
    /// `lister.get`: the object reduced to `fields` (all that the plugin declared, if empty).
    fn get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError>;
    /// `lister.query`: a snapshot of what matches.
    fn list(&self, query: &Query) -> Result<Box<dyn Listing>, ApiError>;
    /// `lister.query.count`.
    fn count(&self, query: &Query) -> Result<u32, ApiError>;
    /// `lister.gone`: whether the object was seen to go.
    fn gone(&self, object: &ObjectReference) -> bool;

    /// `reader.get`.
    fn live_get<'a>(
        &'a self,
        kind: &'a str,
        namespace: &'a str,
        name: &'a str,
        fields: &'a [String],
    ) -> BoxFuture<'a, Result<Bytes, ApiError>>;
    /// `reader.list`.
    fn live_list<'a>(
        &'a self,
        kind: &'a str,
        namespace: &'a str,
        parameters: &'a [(String, String)],
        fields: &'a [String],
    ) -> BoxFuture<'a, Result<Bytes, ApiError>>;
    /// `reader.raw`.
    fn raw<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>>;
    /// `discovery.kinds`.
    fn discover(&self) -> BoxFuture<'_, Result<Bytes, ApiError>>;

    /// `writer.batch.run`: one answer for each write, in their order. The writes go on if the future is dropped.
    fn write(&self, batch: Batch) -> BoxFuture<'_, Vec<Result<Bytes, ApiError>>>;

    /// `events.emit`.
    fn emit_event(&self, about: ObjectReference, event_type: &str, reason: &str, message: &str);

    /// `queue.add` and `queue.add-after`.
    fn enqueue(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError>;
    /// `queue.forget`.
    fn forget(&self, queue: &str, key: &str) -> Result<(), ApiError>;
    /// `queue.requeues`.
    fn requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError>;

    /// `clock.now`.
    fn now(&self) -> SystemTime;
    /// `random.bytes`.
    fn random(&self, buffer: &mut [u8]);
    /// `log.write`.
    fn log(&self, level: LogLevel, message: &str, fields: &[(String, String)]);
    /// `log.enabled`.
    fn log_enabled(&self, level: LogLevel) -> bool;
    /// `metrics.add`.
    fn metric_add(&self, name: &str, labels: &[String], value: f64);
    /// `metrics.set`.
    fn metric_set(&self, name: &str, labels: &[String], value: f64);
    /// `metrics.observe`.
    fn metric_observe(&self, name: &str, labels: &[String], value: f64);
    /// `config.get`.
    fn config(&self, key: &str) -> Option<String>;

    /// `memo.get`.
    fn memo_get(&self, key: &str) -> Option<MemoEntry>;
    /// `memo.put`.
    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: Bytes,
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError>;
    /// `memo.remove`.
    fn memo_remove(&self, key: &str);

    /// `wasi:http`: whether a request may be sent to a server, named as in `https://example.com:443`. Answers the runtime
    /// that is to drive the connection. No server is granted unless this is implemented.
    fn http(&self, server: &str) -> Result<tokio::runtime::Handle, ApiError> {
        Err(ApiError::denied(format!(
            "no requests may be sent to {server}"
        )))
    }

    /// `signer.sign-jwt`.
    fn sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError>;
    /// `signer.verify-jwt`.
    fn verify_jwt(&self, key: &str, token: &str) -> Result<Bytes, ApiError>;
    /// `signer.sign-certificate`.
    fn sign_certificate(&self, key: &str, request: &str, options: &str)
    -> Result<String, ApiError>;
    /// `signer.trust-bundle`.
    fn trust_bundle(&self, key: &str) -> Result<String, ApiError>;
}

/// A question to the cache: all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The kind, as in `v1/Pod`.
    pub kind: String,
    /// Only this namespace; all if empty.
    pub namespace: String,
    /// Only objects with matching labels; all if empty.
    pub label_selector: String,
    /// Only objects of which each of these indexes holds this value.
    pub indexes: Vec<(String, String)>,
    /// Only the object that has this UID.
    pub uid: Option<String>,
    /// Only objects that name this UID as an owner.
    pub owner: Option<String>,
    /// Only objects that name this UID as their controller.
    pub controller: Option<String>,
    /// Only objects that name no controller.
    pub orphans: bool,
    /// The fields of each; all that the plugin declared, if empty.
    pub fields: Vec<String>,
    /// The paths whose values make a row of each; objects in place of rows, if empty.
    pub columns: Vec<String>,
}

/// What a query found, page by page.
pub trait Listing: Send {
    /// The next objects, or rows, as a JSON array, `limit` at most (0: as many as the limit on an answer's size allows); `[]` at the end.
    fn page(&mut self, limit: u32) -> Result<Vec<u8>, ApiError>;
}

/// Writes that are run side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The writes, in the guest's order.
    pub writes: Vec<Write>,
    /// Start with so many at once, and double after each round without an error; the first error skips the rest.
    pub slow_start: Option<u32>,
    /// Run them one after another, and start none after one has failed.
    pub stop_on_error: bool,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// What it is about.
    pub target: Target,
    /// What it does.
    pub operation: Operation,
    /// The API's options object in JSON, or empty.
    pub options: String,
    /// The field paths wanted of the answer; none if empty.
    pub returns: Vec<String>,
}

/// What a write is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind, as in `v1/Pod`.
    pub kind: String,
    /// Empty if it is cluster-scoped.
    pub namespace: String,
    /// Empty where the body names the object.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

/// What a write does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates the object.
    Create {
        /// The object, in JSON.
        object: Bytes,
    },
    /// Replaces the object of this version by it with the change applied.
    Modify {
        /// The version that the change was made against.
        resource_version: String,
        /// A JSON merge patch.
        change: Bytes,
    },
    /// Patches the object.
    Patch {
        /// `json`, `merge`, `strategic` or `apply`.
        patch_type: String,
        /// The patch.
        patch: Bytes,
    },
    /// Deletes the object.
    Delete,
    /// Deletes all matching objects of the kind and namespace.
    DeleteCollection {
        /// All if empty.
        label_selector: String,
        /// All if empty.
        field_selector: String,
    },
}

/// Names an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// Its kind, as in `v1/Pod`.
    pub kind: String,
    /// Empty if it is cluster-scoped.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Empty if not known.
    pub uid: String,
}

/// An entry of the memo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoEntry {
    /// What was put.
    pub value: Bytes,
    /// Raised by each change; never 0.
    pub version: u32,
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// For who looks for a fault.
    Debug,
    /// What an operator wants to see.
    Info,
    /// What an operator should look at.
    Warn,
    /// What went wrong.
    Error,
}
