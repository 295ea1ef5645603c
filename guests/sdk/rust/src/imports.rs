//! The world's imports as one untyped trait. Each function is named after its interface and function in the world.
//!
//! In the sandbox, the WIT imports implement it; natively, the in-memory API server of [`testing`](crate::testing).
//! Controllers use the typed functions of [`Host`](crate::Host) instead.

use std::rc::Rc;

use flyball_types::{ApiError, Catalogue, EventOptions, Projection, Query};

use crate::certificate::CertificateTemplate;
use crate::log::Level;
use crate::reference::ObjectReference;
use crate::time::Time;
use crate::write::Batch;

/// The world's imports. `wit/` documents the functions.
pub trait Imports {
    /// Returns another handle of the same imports, for code that can't borrow this one.
    fn share(&self) -> Rc<dyn Imports>;

    /// Returns the test's stand-in of this type for imports of another package, such as a cloud.
    #[cfg(not(target_arch = "wasm32"))]
    fn extension(&self, _: std::any::TypeId) -> Option<Rc<dyn std::any::Any>> {
        None
    }

    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[&str],
    ) -> Result<Option<Vec<u8>>, ApiError>;
    fn lister_list(
        &self,
        query: Query,
        projection: Projection,
        limit: u32,
    ) -> Result<Page, ApiError>;
    fn lister_count(&self, query: Query) -> Result<u32, ApiError>;
    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool;

    /// Runs a batch of live reads. Returns one result per read.
    fn reader_run(&self, reads: Vec<Read>) -> Vec<Result<Vec<u8>, ApiError>>;
    fn discovery_kinds(&self) -> Result<Catalogue, ApiError>;

    /// Runs a batch of writes. Returns one result per write.
    fn writer_run(&self, batch: Batch) -> Vec<Result<Vec<u8>, ApiError>>;

    fn events_emit(
        &self,
        about: &ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &EventOptions,
    );

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError>;
    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError>;
    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError>;
    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError>;

    fn clock_now(&self) -> Time;
    fn random_bytes(&self, count: u32) -> Vec<u8>;
    fn log_write(&self, level: Level, message: &str, fields: &[(String, String)]);
    fn log_enabled(&self, level: Level) -> bool;
    fn metrics(&self, operation: MetricOperation, name: &str, labels: &[&str], value: f64);
    fn config_get(&self, key: &str) -> Option<String>;

    /// Returns the value and its version.
    fn memo_get(&self, key: &str) -> Option<(Vec<u8>, u32)>;
    /// Returns the new version.
    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: &[u8],
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError>;
    fn memo_remove(&self, key: &str);

    fn signer_sign_jwt(&self, key: &str, claims: &[u8]) -> Result<String, ApiError>;
    fn signer_verify_jwt(&self, key: &str, token: &str) -> Result<Vec<u8>, ApiError>;
    /// Returns certificates in DER.
    fn signer_certificate_authority(&self, signer: &str) -> Result<Vec<Vec<u8>>, ApiError>;
    /// Returns a certificate in DER.
    fn signer_sign_certificate(
        &self,
        signer: &str,
        template: &CertificateTemplate,
    ) -> Result<Vec<u8>, ApiError>;
}

/// A page of a query's result.
pub struct Page {
    /// A JSON array of objects or rows.
    pub items: Vec<u8>,
    /// The rest of the result; `None` on the last page.
    pub rest: Option<Box<dyn Cursor>>,
}

/// The rest of a query's result, from the same snapshot.
pub trait Cursor {
    /// Returns the next page; with a limit of 0, the host chooses its size.
    fn next(self: Box<Self>, limit: u32) -> Result<Page, ApiError>;
}

/// A live read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// An object, reduced to `fields`; the whole object if empty.
    Get {
        kind: String,
        namespace: String,
        name: String,
        fields: Vec<String>,
    },
    /// The API's list object with each item reduced to `fields`.
    List {
        kind: String,
        namespace: String,
        parameters: Vec<(String, String)>,
        fields: Vec<String>,
    },
    /// The body of the response to a GET of this path.
    Raw { path: String },
}

/// A function of the interface `metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricOperation {
    /// Adds to a counter.
    Add,
    /// Sets a gauge.
    Set,
    /// Observes a value in a histogram.
    Observe,
}
