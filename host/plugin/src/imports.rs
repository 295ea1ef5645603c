//! The world's imports, as a trait that the manager implements. Each call of a guest has its own value, so that the
//! value knows which key it serves and can commit or discard what the call staged.
//!
//! Text and bytes come from the guest, and the implementation must check them. Each function is named after its
//! interface and its function in the world.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_types::{ApiError, Catalogue, Projection, Query};
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use crate::allowance::Allowance;
use crate::budget::{Charge, Held};
use crate::cloud::{CloudCall, CloudError};

/// The imports of one call. Functions that do not return a future must not block. Those that loop over a guest's data, or
/// over objects, draw from an [`Allowance`].
pub trait Imports: Send + Sync + 'static {
    /// Returns the object reduced to `fields`. If `fields` is empty, the object has all fields that the plugin
    /// declared.
    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError>;
    /// Returns the first page of a snapshot of the matching objects. A limit of 0 means as many objects as fit into
    /// [`Limits::answer_bytes`](crate::Limits::answer_bytes).
    fn lister_list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
        allowance: &Allowance,
    ) -> Result<Page, ApiError>;
    fn lister_count(&self, query: &Query, allowance: &Allowance) -> Result<u32, ApiError>;
    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool;

    /// Performs one read of a batch. The runtime performs the reads of a batch concurrently, up to a bound.
    fn reader_read(
        &self,
        read: Read,
        allowance: Allowance,
    ) -> BoxFuture<'_, Result<Held, ApiError>>;
    fn discovery_kinds(&self) -> BoxFuture<'_, Result<Catalogue, ApiError>>;

    /// Returns one result for each write, in their order. The writes go on if the future is dropped. `charge` counts
    /// the batch, and must be kept as long as any of it is.
    fn writer_run(
        &self,
        batch: Batch,
        charge: Charge,
        allowance: Allowance,
    ) -> BoxFuture<'_, Vec<Result<Held, ApiError>>>;

    /// `options` is a JSON document.
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

    fn signer_sign_jwt(&self, key: String, claims: Vec<u8>) -> BoxFuture<'_, Metered<String>>;
    fn signer_verify_jwt(&self, key: String, token: String) -> BoxFuture<'_, Metered<Vec<u8>>>;
    /// Returns the certificates of the signer's authority in DER.
    fn signer_certificate_authority(&self, signer: String) -> BoxFuture<'_, Metered<Vec<Vec<u8>>>>;
    /// Returns a certificate in DER.
    fn signer_sign_certificate(
        &self,
        signer: String,
        template: CertificateTemplate,
    ) -> BoxFuture<'_, Metered<Vec<u8>>>;

    /// Returns the document of what the cloud supports. By default no cloud is granted.
    fn cloud_capabilities(&self) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        Box::pin(std::future::ready(Err(no_cloud())))
    }

    /// Calls a method of the cloud, and returns the document of its result. The runtime makes the calls of a batch
    /// concurrently, up to a bound. By default no cloud is granted.
    fn cloud_call(&self, _: CloudCall) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        Box::pin(std::future::ready(Err(no_cloud())))
    }

    /// Returns the credential of this name that the operator gives a provider. By default there is none.
    fn credential(&self, _: &str) -> Option<Bytes> {
        None
    }

    /// Checks whether a `wasi:http` request may be sent to `server`, such as `https://example.com:443`. By default no
    /// server is granted.
    fn http(&self, server: &str) -> Result<HttpGrant, ApiError> {
        Err(ApiError::denied(format!(
            "the policy grants this plugin no requests to {server}"
        )))
    }
}

fn no_cloud() -> CloudError {
    CloudError::denied("the policy grants this plugin no cloud")
}

/// A server that a request may be sent to, if it has an address that a connection may be made to.
pub struct HttpGrant {
    /// The runtime that drives the connection. It must have I/O.
    pub runtime: Handle,
    /// Is given the addresses that the server's name was resolved to, once. Returns those that a connection may be made
    /// to, and fails if there are none.
    pub check_addresses: Box<CheckAddresses>,
}

pub type CheckAddresses = dyn FnOnce(Vec<SocketAddr>) -> Result<Vec<SocketAddr>, ApiError> + Send;

/// The result of work that the host did for a call on a thread of its own. The call is charged for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metered<T> {
    pub result: Result<T, ApiError>,
    pub cpu_time: Duration,
}

/// The content of a certificate, as the guest gave it, before any check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateTemplate {
    pub key: SubjectKey,
    /// The subject's relative names, each with its attributes: an object identifier and a value.
    pub subject: Vec<Vec<(String, String)>>,
    pub dns_names: Vec<String>,
    pub email_addresses: Vec<String>,
    pub ip_addresses: Vec<String>,
    pub uris: Vec<String>,
    /// The bits of X.509's `KeyUsage`: bit 0 is `digitalSignature`.
    pub key_usages: u16,
    /// Object identifiers.
    pub extended_key_usages: Vec<String>,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
}

/// The key that a certificate is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectKey {
    /// A `SubjectPublicKeyInfo` in DER.
    PublicKey(Vec<u8>),
    /// A PKCS#10 request in DER. Its signature is checked.
    Request(Vec<u8>),
}

/// One page of the result of a query.
pub struct Page {
    /// A JSON array of objects or rows.
    pub items: Vec<u8>,
    /// A cursor for the further pages; none if this is the last page.
    pub rest: Option<Box<dyn Cursor>>,
}

/// The remaining pages of a query's snapshot.
pub trait Cursor: Send {
    /// Returns the next page, in the form of [`Imports::lister_list`].
    fn next(self: Box<Self>, limit: u32, allowance: &Allowance) -> Result<Page, ApiError>;
    /// Bytes that the host holds for the cursor.
    fn size(&self) -> usize;
}

/// A live read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The object reduced to `fields`, or the whole object if `fields` is empty.
    Get {
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    },
    /// The API's list object, with each item reduced to `fields`.
    List {
        kind: String,
        namespace: String,
        parameters: Vec<(String, String)>,
        fields: Vec<String>,
    },
    /// The body of the server's response to a GET of this path.
    Raw { path: String },
}

/// Writes that run concurrently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In the guest's order. A write whose arguments are too long is an error, which is its result.
    pub writes: Vec<Result<Write, ApiError>>,
    /// Run this many writes in the first round, and twice as many in each further round. An error skips the further
    /// rounds.
    pub slow_start: Option<u32>,
    /// Run the writes one after another, and start no more once one has failed.
    pub stop_on_error: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub target: Target,
    pub operation: Operation,
    /// The API's options object in JSON, or empty.
    pub options: Bytes,
    /// Paths of the fields to return of the API server's response. If empty, no fields are returned.
    pub returns: Vec<String>,
}

/// The object or collection that a write applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// For example `v1/Pod`.
    pub kind: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// Empty if the body names the object.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `object` is JSON.
    Create {
        object: Bytes,
    },
    /// Applies the JSON merge patch `change` to the object at this version, and replaces the object by the result.
    Update {
        resource_version: String,
        change: Bytes,
    },
    /// Replaces the status of the object at this version, like the API's `update` of the subresource `status`.
    /// `metadata` is empty or a JSON merge patch of the object's metadata.
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
    /// Deletes all objects of the kind and namespace that match both selectors. An empty selector matches all objects.
    DeleteCollection {
        label_selector: String,
        field_selector: String,
    },
}

impl Operation {
    /// The bytes of the body that the guest has sent, or of its selectors.
    pub fn body_len(&self) -> usize {
        match self {
            Self::Create { object } => object.len(),
            Self::Update { change, .. } => change.len(),
            Self::UpdateStatus {
                status, metadata, ..
            } => status.len() + metadata.len(),
            Self::Patch { patch, .. } => patch.len(),
            Self::Delete => 0,
            Self::DeleteCollection {
                label_selector,
                field_selector,
            } => label_selector.len() + field_selector.len(),
        }
    }
}

impl Write {
    /// The subresource that the request is sent to; empty for the object itself.
    pub fn subresource(&self) -> &str {
        match self.operation {
            Operation::UpdateStatus { .. } => "status",
            _ => &self.target.subresource,
        }
    }
}

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// For example `v1/Pod`.
    pub kind: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    pub name: String,
    /// Empty if unknown.
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoEntry {
    pub value: Bytes,
    /// Incremented by each change; never 0.
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

impl LogLevel {
    /// The name in the interface: `trace` to `error`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}
