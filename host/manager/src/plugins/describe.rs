//! What answers the imports while a plugin describes itself: its log and its configuration, and nothing else. No grant is
//! known before the description is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use flyball_plugin::{Batch, Imports, Listing, LogLevel, MemoEntry, ObjectReference, Query};
use flyball_types::ApiError;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::limits::rate::RateGate;
use crate::runtime::services::log_guest;

/// Answers a `describe`.
pub(crate) struct DescribeImports {
    /// The file, or the name of the built-in.
    pub(crate) origin: Arc<str>,
    /// The operator's values.
    pub(crate) config: BTreeMap<String, String>,
    /// What it may log.
    pub(crate) log_lines: RateGate,
}

fn denied() -> ApiError {
    ApiError::denied("`describe` has no import but `log` and `config`")
}

impl Imports for DescribeImports {
    fn get(&self, _: &str, _: &str, _: &str, _: &[String]) -> Result<Option<Bytes>, ApiError> {
        Err(denied())
    }

    fn list(&self, _: &Query) -> Result<Box<dyn Listing>, ApiError> {
        Err(denied())
    }

    fn count(&self, _: &Query) -> Result<u32, ApiError> {
        Err(denied())
    }

    fn gone(&self, _: &ObjectReference) -> bool {
        false
    }

    fn live_get<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
        _: &'a [String],
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        async { Err(denied()) }.boxed()
    }

    fn live_list<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a [(String, String)],
        _: &'a [String],
    ) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        async { Err(denied()) }.boxed()
    }

    fn raw<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        async { Err(denied()) }.boxed()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        async { Err(denied()) }.boxed()
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Vec<Result<Bytes, ApiError>>> {
        async move { vec![Err(denied()); batch.writes.len()] }.boxed()
    }

    fn emit_event(&self, _: ObjectReference, _: &str, _: &str, _: &str) {}

    fn enqueue(&self, _: &str, _: &str, _: u32) -> Result<(), ApiError> {
        Err(denied())
    }

    fn forget(&self, _: &str, _: &str) -> Result<(), ApiError> {
        Err(denied())
    }

    fn requeues(&self, _: &str, _: &str) -> Result<u32, ApiError> {
        Err(denied())
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn random(&self, buffer: &mut [u8]) {
        rand::fill(buffer);
    }

    fn log(&self, level: LogLevel, message: &str, fields: &[(String, String)]) {
        if self.log_lines.pass() {
            log_guest(&self.origin, "describe", level, message, fields);
        }
    }

    fn log_enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn metric_add(&self, _: &str, _: &[String], _: f64) {}

    fn metric_set(&self, _: &str, _: &[String], _: f64) {}

    fn metric_observe(&self, _: &str, _: &[String], _: f64) {}

    fn config(&self, key: &str) -> Option<String> {
        self.config.get(key).cloned()
    }

    fn memo_get(&self, _: &str) -> Option<MemoEntry> {
        None
    }

    fn memo_put(&self, _: &str, _: u32, _: Bytes, _: &str, _: u32) -> Result<u32, ApiError> {
        Err(denied())
    }

    fn memo_remove(&self, _: &str) {}

    fn sign_jwt(&self, _: &str, _: &[u8]) -> Result<String, ApiError> {
        Err(denied())
    }

    fn verify_jwt(&self, _: &str, _: &str) -> Result<Bytes, ApiError> {
        Err(denied())
    }

    fn sign_certificate(&self, _: &str, _: &str, _: &str) -> Result<String, ApiError> {
        Err(denied())
    }

    fn trust_bundle(&self, _: &str) -> Result<String, ApiError> {
        Err(denied())
    }
}
