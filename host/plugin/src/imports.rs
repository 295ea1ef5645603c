//! What a guest may ask for during one call: the world's imports, as a trait that the manager implements. One value lives
//! for one call, so that it knows which key it serves and can commit or drop what the call staged.
//!
//! Text and bytes come from a guest; the implementation checks them. Each function is named after its interface and its
//! function in the world.

use std::time::SystemTime;

use bytes::Bytes;
use flyball_types::{ApiError, Catalogue, Projection, Query};
use futures::future::BoxFuture;

/// The imports of one call. Functions that are not futures never wait.
pub trait Imports: Send + Sync + 'static {
    /// The object reduced to `fields`, or to all that the plugin declared if there are none.
    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError>;
    /// The first page of a snapshot of what matches. A limit of 0 means as much as fits the limit on a result's size.
    fn lister_list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
    ) -> Result<Page, ApiError>;
    fn lister_count(&self, query: &Query) -> Result<u32, ApiError>;
    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool;

    /// One read of a batch. The runtime runs the reads of a batch concurrently, up to a bound.
    fn reader_read(&self, read: Read) -> BoxFuture<'_, Result<Bytes, ApiError>>;
    fn discovery_kinds(&self) -> BoxFuture<'_, Result<Catalogue, ApiError>>;

    /// Returns one result for each write, in their order. The writes go on if the future is dropped.
    fn writer_run(&self, batch: Batch) -> BoxFuture<'_, Vec<Result<Bytes, ApiError>>>;

    /// `options` is a document.
    fn events_emit(
        &self,
        about: ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &[u8],
    );

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError>;
    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError>;
    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError>;
    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError>;

    fn clock_now(&self) -> SystemTime;
    fn random_bytes(&self, buffer: &mut [u8]);
    fn log_write(&self, level: LogLevel, message: &str, fields: &[(String, String)]);
    fn log_enabled(&self, level: LogLevel) -> bool;
    fn metrics_add(&self, name: &str, labels: &[String], value: f64);
    fn metrics_set(&self, name: &str, labels: &[String], value: f64);
    fn metrics_observe(&self, name: &str, labels: &[String], value: f64);
    fn config_get(&self, key: &str) -> Option<String>;

    fn memo_get(&self, key: &str) -> Option<MemoEntry>;
    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: Bytes,
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError>;
    fn memo_remove(&self, key: &str);

    fn signer_sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError>;
    fn signer_verify_jwt(&self, key: &str, token: &str) -> Result<Bytes, ApiError>;

    /// `wasi:http`: whether a request may be sent to a server, named as in `https://example.com:443`. Returns the runtime
    /// that drives the connection. No server is granted unless this is implemented.
    fn http(&self, server: &str) -> Result<tokio::runtime::Handle, ApiError> {
        Err(ApiError::denied(format!(
            "the policy grants this plugin no requests to {server}"
        )))
    }
}

/// Part of the result of a query.
pub struct Page {
    /// A JSON array of objects or rows.
    pub items: Vec<u8>,
    /// None if `items` holds the last object.
    pub rest: Option<Box<dyn Cursor>>,
}

/// The rest of a query's snapshot.
pub trait Cursor: Send {
    /// The next page, as [`Imports::lister_list`] returns it.
    fn next(self: Box<Self>, limit: u32) -> Result<Page, ApiError>;
    /// Bytes that the host holds for the cursor.
    fn size(&self) -> usize;
}

/// A live read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The object, reduced to `fields`; whole if there are none.
    Get {
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    },
    /// The API's list object, each item reduced to `fields`.
    List {
        kind: String,
        namespace: String,
        parameters: Vec<(String, String)>,
        fields: Vec<String>,
    },
    /// The body of the server's answer to a GET of this path.
    Raw { path: String },
}

/// Writes that run concurrently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In the guest's order.
    pub writes: Vec<Write>,
    /// Start with so many at once, and double after each round without an error; the first error skips the rest.
    pub slow_start: Option<u32>,
    /// Run them one after another, and start none after one has failed.
    pub stop_on_error: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub target: Target,
    pub operation: Operation,
    /// The API's options object in JSON, or empty.
    pub options: Bytes,
    /// The field paths wanted of the answer; none if empty.
    pub returns: Vec<String>,
}

/// What a write is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As in `v1/Pod`.
    pub kind: String,
    /// Empty if it is cluster-scoped.
    pub namespace: String,
    /// Empty where the body names the object.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object, in JSON.
    Create {
        object: Bytes,
    },
    /// Replaces the object of this version by it with a JSON merge patch applied.
    Update {
        resource_version: String,
        change: Bytes,
    },
    /// Replaces the status of the object of this version, as the API's `update` of the subresource `status`. `metadata` is
    /// a JSON merge patch of its metadata, or empty.
    UpdateStatus {
        resource_version: String,
        status: Bytes,
        metadata: Bytes,
    },
    /// `patch_type` is `json`, `merge`, `strategic` or `apply`.
    Patch {
        patch_type: String,
        patch: Bytes,
    },
    Delete,
    /// Deletes all objects of the kind and namespace that match both selectors; an empty one matches all.
    DeleteCollection {
        label_selector: String,
        field_selector: String,
    },
}

impl Write {
    /// The subresource that the request is about; empty for the object itself.
    pub fn subresource(&self) -> &str {
        match self.operation {
            Operation::UpdateStatus { .. } => "status",
            _ => &self.target.subresource,
        }
    }
}

/// Names an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// As in `v1/Pod`.
    pub kind: String,
    /// Empty if it is cluster-scoped.
    pub namespace: String,
    pub name: String,
    /// Empty if not known.
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoEntry {
    pub value: Bytes,
    /// Raised by each change; never 0.
    pub version: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}
