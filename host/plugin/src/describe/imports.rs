//! The imports of a component during `describe`: its log and its configuration. All others fail, because a component has
//! no grant before its description is known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flyball_types::{ApiError, Catalogue, Projection, Query};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::LogSink;
use crate::allowance::Allowance;
use crate::budget::{Charge, Held};
use crate::imports::{
    Batch, CertificateTemplate, Imports, LogLevel, MemoEntry, Metered, ObjectReference, Page, Read,
};

/// The imports of a `describe` call.
pub(super) struct DescribeImports {
    /// The operator's configuration.
    pub(super) config: BTreeMap<String, String>,
    pub(super) log: Arc<LogSink>,
}

fn denied() -> ApiError {
    ApiError::denied("`describe` has no import but `log` and `config`")
}

fn refused<T: Send + 'static>() -> BoxFuture<'static, Metered<T>> {
    let refused = Metered {
        result: Err(denied()),
        cpu_time: Duration::ZERO,
    };
    std::future::ready(refused).boxed()
}

impl Imports for DescribeImports {
    fn lister_get(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        Err(denied())
    }

    fn lister_list(
        &self,
        _: &Query,
        _: &Projection,
        _: u32,
        _: &Allowance,
    ) -> Result<Page, ApiError> {
        Err(denied())
    }

    fn lister_count(&self, _: &Query, _: &Allowance) -> Result<u32, ApiError> {
        Err(denied())
    }

    fn lister_deletion_observed(&self, _: &ObjectReference) -> bool {
        false
    }

    fn reader_read(&self, _: Read, _: Allowance) -> BoxFuture<'_, Result<Held, ApiError>> {
        async { Err(denied()) }.boxed()
    }

    fn discovery_kinds(&self) -> BoxFuture<'_, Result<Catalogue, ApiError>> {
        async { Err(denied()) }.boxed()
    }

    fn writer_run(
        &self,
        batch: Batch,
        _: Charge,
        _: Allowance,
    ) -> BoxFuture<'_, Vec<Result<Held, ApiError>>> {
        async move { batch.writes.iter().map(|_| Err(denied())).collect() }.boxed()
    }

    fn events_emit(&self, _: ObjectReference, _: &str, _: &str, _: &str, _: &[u8]) {}

    fn queue_add(&self, _: &str, _: &str) -> Result<(), ApiError> {
        Err(denied())
    }

    fn queue_add_after(&self, _: &str, _: &str, _: u32) -> Result<(), ApiError> {
        Err(denied())
    }

    fn queue_forget(&self, _: &str, _: &str) -> Result<(), ApiError> {
        Err(denied())
    }

    fn queue_requeues(&self, _: &str, _: &str) -> Result<u32, ApiError> {
        Err(denied())
    }

    fn clock_now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random_bytes(&self, buffer: &mut [u8]) {
        rand::fill(buffer);
    }

    fn log_write(&self, level: LogLevel, message: &str, fields: &[(String, String)]) {
        (self.log)(level, message, fields);
    }

    fn log_enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn metrics_add(&self, _: &str, _: &[String], _: f64) {}

    fn metrics_set(&self, _: &str, _: &[String], _: f64) {}

    fn metrics_observe(&self, _: &str, _: &[String], _: f64) {}

    fn config_get(&self, key: &str) -> Option<String> {
        self.config.get(key).cloned()
    }

    fn memo_get(&self, _: &str) -> Option<MemoEntry> {
        None
    }

    fn memo_put(&self, _: &str, _: u32, _: Bytes, _: &str, _: u32) -> Result<u32, ApiError> {
        Err(denied())
    }

    fn memo_remove(&self, _: &str) {}

    fn signer_sign_jwt(&self, _: String, _: Vec<u8>) -> BoxFuture<'_, Metered<String>> {
        refused()
    }

    fn signer_verify_jwt(&self, _: String, _: String) -> BoxFuture<'_, Metered<Vec<u8>>> {
        refused()
    }

    fn signer_certificate_authority(&self, _: String) -> BoxFuture<'_, Metered<Vec<Vec<u8>>>> {
        refused()
    }

    fn signer_sign_certificate(
        &self,
        _: String,
        _: CertificateTemplate,
    ) -> BoxFuture<'_, Metered<Vec<u8>>> {
        refused()
    }
}
