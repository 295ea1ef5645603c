//! The imports of a call that is repeated: they answer from the recording, and change nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use flyball_plugin::{
    Allowance, Batch, CertificateTemplate, Charge, CloudCall, CloudError, Cursor, Held, HttpGrant,
    Imports, LogLevel, MemoEntry, Metered, ObjectReference, Page, Read,
};
use flyball_recording::answer::{self, Answer};
use flyball_recording::{Asked, Document, Malformed, Parted, Reply, Tape, asked};
use flyball_types::{ApiError, Catalogue, Effect, Projection, Query};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::convert;

/// The most lines of the guest's log that are kept.
const MAX_LINES: usize = 1000;

/// Imports that answer from a recording.
pub(crate) struct Replaying {
    tape: Mutex<Option<Tape>>,
    /// Values of the configuration that the recorded call did not ask for.
    config: BTreeMap<String, String>,
    log: Mutex<Vec<(LogLevel, String)>>,
    /// Cancelled when the call must be stopped.
    stop: CancellationToken,
}

/// The rest of a recorded list.
struct ReplayedCursor {
    replaying: Arc<Replaying>,
    number: u32,
    size: usize,
}

/// Repeats a call.
#[derive(Clone)]
pub(crate) struct Replay(Arc<Replaying>);

impl Replay {
    pub(crate) fn new(tape: Tape, config: BTreeMap<String, String>) -> Self {
        Self(Arc::new(Replaying {
            tape: Mutex::new(Some(tape)),
            config,
            log: Mutex::default(),
            stop: CancellationToken::new(),
        }))
    }

    pub(crate) fn imports(&self) -> Arc<dyn Imports> {
        Arc::new(self.clone())
    }

    /// Waits until the call must be stopped.
    pub(crate) async fn stopped(&self) {
        self.0.stop.cancelled().await;
    }

    /// Ends the call, as [`Tape::end`] does. Further questions have no answer.
    pub(crate) fn end(&self, now: Option<flyball_recording::Ended>) -> Option<Parted> {
        self.0.tape.lock().take().and_then(|tape| tape.end(now))
    }

    /// The lines that the guest has logged.
    pub(crate) fn take_log(&self) -> Vec<(LogLevel, String)> {
        std::mem::take(&mut self.0.log.lock())
    }

    fn with_tape<T>(&self, work: impl FnOnce(&mut Tape) -> T) -> Option<T> {
        self.0.tape.lock().as_mut().map(work)
    }

    /// Returns the recorded answer to a question; none if the call must be stopped.
    fn ask(&self, now: Asked) -> Option<Box<RawValue>> {
        match self.with_tape(|tape| tape.ask(now)) {
            Some(Reply::Answer(answered)) => Some(answered),
            Some(Reply::Stop | Reply::Parted) | None => {
                self.0.stop.cancel();
                None
            }
        }
    }

    /// Parses an answer; none if it is malformed, which ends the call.
    fn parsed<T>(&self, parsed: Result<T, Malformed>) -> Option<T> {
        parsed
            .inspect_err(|error| {
                self.with_tape(|tape| tape.note_malformed(error));
                self.0.stop.cancel();
            })
            .ok()
    }

    /// Returns the recorded answer of a function that may fail.
    fn result<T: DeserializeOwned>(&self, now: Asked) -> Result<T, ApiError> {
        self.ask(now)
            .and_then(|answered| self.parsed(answer::read_result(&answered)))
            .unwrap_or_else(|| Err(has_ended()))
    }

    /// Returns the recorded answer of a function that can't fail; the default if the call must be stopped.
    fn value<T: DeserializeOwned + Default>(&self, now: Asked) -> T {
        self.ask(now)
            .and_then(|answered| self.parsed(answer::read_ok(&answered)))
            .unwrap_or_default()
    }

    fn page(&self, now: Asked) -> Result<Page, ApiError> {
        let page: answer::Page = self.result(now)?;
        let cursor = |number| {
            let size = usize::try_from(page.rest_bytes).unwrap_or(usize::MAX);
            let replaying = self.0.clone();
            Box::new(ReplayedCursor {
                replaying,
                number,
                size,
            }) as Box<dyn Cursor>
        };
        Ok(Page {
            rest: page.rest.map(cursor),
            items: page.items.0,
        })
    }

    fn metered<T: DeserializeOwned + Send + 'static, U: Send + 'static>(
        &self,
        now: Asked,
        from: impl FnOnce(T) -> U,
    ) -> BoxFuture<'_, Metered<U>> {
        let done = Metered {
            result: self.result(now).map(from),
            cpu_time: Duration::ZERO,
        };
        std::future::ready(done).boxed()
    }

    fn of_cloud(&self, now: Asked) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        let parse = |answered: Box<RawValue>| {
            let answer =
                serde_json::from_str::<Answer<Document, answer::CloudError>>(answered.get());
            self.parsed(answer.map_err(Malformed::from))
        };
        let result = match self.ask(now).and_then(parse) {
            Some(answer) => answer.into_result(),
            None => Err(answer::CloudError::default()),
        };
        let result = result
            .map(|document| document.0)
            .map_err(convert::recorded_cloud_error);
        std::future::ready(result).boxed()
    }
}

/// What a call gets that asks on after it was to be stopped.
fn has_ended() -> ApiError {
    ApiError::internal(Effect::None, "the recording has no answer to this")
}

impl Cursor for ReplayedCursor {
    fn next(self: Box<Self>, limit: u32, _: &Allowance) -> Result<Page, ApiError> {
        Replay(self.replaying).page(asked::lister_next(self.number, limit))
    }

    fn size(&self) -> usize {
        self.size
    }
}

impl Imports for Replay {
    fn lister_get(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<Bytes>, ApiError> {
        let found: answer::Found = self.result(asked::lister_get(kind, namespace, name, fields))?;
        Ok(found.object.map(|object| object.0.into()))
    }

    fn lister_list(
        &self,
        query: &Query,
        projection: &Projection,
        limit: u32,
        _: &Allowance,
    ) -> Result<Page, ApiError> {
        self.page(asked::lister_list(query, projection, limit))
    }

    fn lister_count(&self, query: &Query, _: &Allowance) -> Result<u32, ApiError> {
        self.result(asked::lister_count(query))
    }

    fn lister_deletion_observed(&self, object: &ObjectReference) -> bool {
        let ObjectReference {
            kind,
            namespace,
            name,
            uid,
        } = object;
        self.value(asked::deletion_observed(kind, namespace, name, uid))
    }

    fn reader_read(&self, read: Read, _: Allowance) -> BoxFuture<'_, Result<Held, ApiError>> {
        let read: Result<Document, ApiError> = self.result(convert::read(&read));
        let held = read.map(|document| Held::from(Bytes::from(document.0)));
        std::future::ready(held).boxed()
    }

    fn discovery_kinds(&self) -> BoxFuture<'_, Result<Catalogue, ApiError>> {
        let kinds: Result<answer::Catalogue, ApiError> = self.result(asked::discovery_kinds());
        std::future::ready(kinds.map(Catalogue::from)).boxed()
    }

    fn writer_run(
        &self,
        batch: Batch,
        _: Charge,
        _: Allowance,
    ) -> BoxFuture<'_, Vec<Result<Held, ApiError>>> {
        let count = batch.writes.len();
        let answers = self.ask(convert::batch(&batch)).and_then(|answered| {
            let answers: Result<Vec<Answer<Document>>, Malformed> = answer::read_ok(&answered);
            let answers = answers.and_then(|answers| match answers.len() == count {
                true => Ok(answers),
                false => Err(Malformed(format!(
                    "{count} writes have {} answers",
                    answers.len()
                ))),
            });
            self.parsed(answers)
        });
        let held = |answer: Answer<Document>| match answer {
            Answer::Ok(document) => Ok(Held::from(Bytes::from(document.0))),
            Answer::Error(error) => Err(ApiError::from(error)),
        };
        let results: Vec<Result<Held, ApiError>> = match answers {
            Some(answers) => answers.into_iter().map(held).collect(),
            None => (0..count).map(|_| Err(has_ended())).collect(),
        };
        std::future::ready(results).boxed()
    }

    fn events_emit(
        &self,
        about: ObjectReference,
        event_type: &str,
        reason: &str,
        message: &str,
        options: &[u8],
    ) {
        let about = convert::reference(&about);
        self.ask(asked::events_emit(
            about, event_type, reason, message, options,
        ));
    }

    fn queue_add(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.queue_add_after(queue, key, 0)
    }

    fn queue_add_after(&self, queue: &str, key: &str, delay_ms: u32) -> Result<(), ApiError> {
        self.result(asked::queue_add(queue, key, delay_ms))
    }

    fn queue_forget(&self, queue: &str, key: &str) -> Result<(), ApiError> {
        self.result(asked::queue_forget(queue, key))
    }

    fn queue_requeues(&self, queue: &str, key: &str) -> Result<u32, ApiError> {
        self.result(asked::queue_requeues(queue, key))
    }

    fn clock_now(&self) -> SystemTime {
        let time = self.with_tape(Tape::clock).unwrap_or_default();
        UNIX_EPOCH + Duration::new(time.seconds.into(), time.nanoseconds.min(999_999_999))
    }

    fn random_bytes(&self, buffer: &mut [u8]) {
        let bytes = self.with_tape(|tape| tape.random(buffer.len()));
        if let Some(bytes) = bytes {
            buffer.copy_from_slice(&bytes);
        }
    }

    fn log_write(&self, level: LogLevel, message: &str, fields: &[(String, String)]) {
        let mut log = self.0.log.lock();
        if log.len() < MAX_LINES {
            let fields = fields
                .iter()
                .map(|(name, value)| format!(" {name}={value:?}"));
            let line = format!("{message}{}", fields.collect::<String>());
            log.push((level, flyball_types::excerpt(&line, 4096)));
        }
    }

    fn log_enabled(&self, level: LogLevel) -> bool {
        self.with_tape(|tape| tape.is_enabled(level.name()))
            .unwrap_or(true)
    }

    fn metrics_add(&self, _: &str, _: &[String], _: f64) {}

    fn metrics_set(&self, _: &str, _: &[String], _: f64) {}

    fn metrics_observe(&self, _: &str, _: &[String], _: f64) {}

    fn config_get(&self, key: &str) -> Option<String> {
        let recorded = self.with_tape(|tape| tape.config(key)).flatten();
        recorded.unwrap_or_else(|| self.0.config.get(key).cloned())
    }

    fn memo_get(&self, key: &str) -> Option<MemoEntry> {
        let memo: answer::Memo = self.value(asked::memo_get(key));
        memo.entry.map(|entry| MemoEntry {
            value: entry.value.0.into(),
            version: entry.version,
        })
    }

    fn memo_put(
        &self,
        key: &str,
        expected: u32,
        value: Bytes,
        object_uid: &str,
        ttl_ms: u32,
    ) -> Result<u32, ApiError> {
        self.result(asked::memo_put(key, expected, &value, object_uid, ttl_ms))
    }

    fn memo_remove(&self, key: &str) {
        self.ask(asked::memo_remove(key));
    }

    fn signer_sign_jwt(&self, key: String, claims: Vec<u8>) -> BoxFuture<'_, Metered<String>> {
        self.metered(asked::sign_jwt(&key, &claims), |token: String| token)
    }

    fn signer_verify_jwt(&self, key: String, token: String) -> BoxFuture<'_, Metered<Vec<u8>>> {
        self.metered(asked::verify_jwt(&key, &token), |Document(claims)| claims)
    }

    fn signer_certificate_authority(&self, signer: String) -> BoxFuture<'_, Metered<Vec<Vec<u8>>>> {
        let bytes =
            |documents: Vec<Document>| documents.into_iter().map(|document| document.0).collect();
        self.metered(asked::certificate_authority(&signer), bytes)
    }

    fn signer_sign_certificate(
        &self,
        signer: String,
        template: CertificateTemplate,
    ) -> BoxFuture<'_, Metered<Vec<u8>>> {
        let asked = asked::sign_certificate(&signer, convert::template(&template));
        self.metered(asked, |Document(certificate)| certificate)
    }

    fn cloud_capabilities(&self) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        self.of_cloud(asked::cloud_capabilities())
    }

    fn cloud_call(&self, call: CloudCall) -> BoxFuture<'_, Result<Vec<u8>, CloudError>> {
        self.of_cloud(asked::cloud_call(
            &call.method,
            &call.arguments,
            &call.nodes,
        ))
    }

    fn credential(&self, name: &str) -> Option<Bytes> {
        let found: Option<Document> = self.value(asked::credentials_get(name));
        found.map(|document| document.0.into())
    }

    fn http(&self, server: &str) -> Result<HttpGrant, ApiError> {
        self.ask(asked::http(server));
        Err(has_ended())
    }
}
