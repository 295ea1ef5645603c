//! The host's side of the world: a module for each interface, which translates it into [`Imports`], and the state of an
//! instance, which they share. An error that a guest may handle is a WIT error. A violated rule of the sandbox is a
//! trap.

mod arguments;
mod cloud;
mod events;
mod http;
mod lister;
mod local;
mod queue;
mod reader;
mod replace;
mod signer;
mod staged;
mod wasi;
mod writer;

use std::sync::Arc;

use bytes::Bytes;
use flyball_types::{ApiError, Effect, printable, size_of_block};
use wasmtime::component::{HasSelf, Linker, ResourceTable, ResourceTableError};

use crate::allowance::Allowance;
use crate::bindings::Controller;
use crate::bindings::cloud::Sdk;
use crate::bindings::flyball::controller::types;
use crate::budget::Charge;
use crate::handles::{OpenCursor, ReadBatch, WriteBatch};
use crate::hits::Limit;
use crate::imports::{Imports, ObjectReference};
use crate::limits::{Limits, MemoryMeter};
use crate::meter::Meter;
use crate::tally::Tally;
use arguments::Checked;
use wasi::Wasi;

/// Maximum length of the guest's last error, which explains a trap, in bytes.
const MAX_LAST_ERROR: usize = 2048;

/// Results of fewer bytes are not counted until the guest has them, because that would slow small reads down.
const LARGE_ANSWER: usize = 64 * 1024;

/// The state of one instance and of its current call.
pub(crate) struct InstanceState {
    /// The imports of the current call; none between two calls.
    imports: Option<Arc<dyn Imports>>,
    limits: Arc<Limits>,
    pub(crate) memory: MemoryMeter,
    pub(crate) meter: Arc<Meter>,
    tally: Arc<Tally>,
    /// The guest's cursors and batches.
    handles: ResourceTable,
    /// Bytes that the cursors and batches hold together.
    staged: usize,
    /// The part of them in the plugin's budget.
    held: Charge,
    /// The last result of an import, if it is large. It is held while the guest allocates memory for it.
    answer: Charge,
    /// The last error that the guest logged in this call.
    last_error: Option<String>,
    /// Created when the guest first calls a WASI function. Most guests never do.
    wasi: Option<Wasi>,
}

/// Links all imports of the world, and WASI.
pub(crate) fn link(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<InstanceState>> {
    let mut linker = Linker::new(engine);
    Controller::add_to_linker::<InstanceState, HasSelf<InstanceState>>(&mut linker, |state| state)?;
    Sdk::add_to_linker::<InstanceState, HasSelf<InstanceState>>(&mut linker, |state| state)?;
    wasi::link(&mut linker)?;
    http::link(&mut linker)?;
    Ok(linker)
}

impl InstanceState {
    pub(crate) fn new(limits: Arc<Limits>, meter: Arc<Meter>, tally: Arc<Tally>) -> Self {
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(limits.handles);
        Self {
            imports: None,
            memory: MemoryMeter::new(limits.memory, tally.memory_shares.clone()),
            held: tally.budget.charge(),
            answer: tally.budget.charge(),
            limits,
            meter,
            tally,
            handles,
            staged: 0,
            last_error: None,
            wasi: None,
        }
    }

    pub(crate) fn begin_call(&mut self, imports: Arc<dyn Imports>) {
        self.meter.reset();
        self.memory.begin_call();
        self.last_error = None;
        if let Some(wasi) = &self.wasi {
            wasi.begin_call(imports.clone());
        }
        self.imports = Some(imports);
    }

    /// Discards the state of the call. Handles that the guest did not drop stay, but are emptied.
    pub(crate) fn end_call(&mut self) {
        self.imports = None;
        self.received();
        if let Some(wasi) = &mut self.wasi {
            wasi.end_call();
        }
        if self.staged > 0 || !self.handles.is_empty() {
            self.unstage(self.staged);
            for entry in self.handles.iter_mut() {
                if let Some(cursor) = entry.downcast_mut::<OpenCursor>() {
                    cursor.end();
                } else if let Some(batch) = entry.downcast_mut::<ReadBatch>() {
                    batch.end();
                } else if let Some(batch) = entry.downcast_mut::<WriteBatch>() {
                    batch.end();
                }
            }
        }
    }

    /// True if the guest holds so many handles that later calls may get none. A call should not leave handles behind.
    pub(crate) fn has_leaked_handles(&mut self) -> bool {
        let handles = if self.handles.is_empty() {
            0
        } else {
            self.handles.iter_mut().count()
        };
        let of_wasi = self.wasi.as_mut().map_or(0, Wasi::handles);
        handles > self.limits.handles / 2 || of_wasi > wasi::HANDLES / 2
    }

    /// The last error that the guest logged in this call, or else the end of its stderr.
    pub(crate) fn last_error(&self) -> Option<String> {
        let logged = self.last_error.clone();
        let text = logged.or_else(|| self.wasi.as_ref()?.stderr_tail())?;
        Some(last_error_tail(&printable(&text)).into())
    }

    /// Returns the imports of the current call if the arguments are within their limits: see `arguments.rs`.
    fn imports(
        &mut self,
        arguments: Checked,
    ) -> wasmtime::Result<Result<&Arc<dyn Imports>, ApiError>> {
        self.received();
        if let Err(error) = self.checked(arguments) {
            return Ok(Err(error));
        }
        let imports = self.imports.as_ref();
        imports
            .map(Ok)
            .ok_or_else(|| wasmtime::Error::msg("the guest called the host between two calls"))
    }

    /// The allowance of the current call.
    fn allowance(&self) -> Allowance {
        Allowance::of(&self.meter)
    }

    /// Like [`Self::imports`], for a function without texts.
    fn imports_without_texts(&mut self) -> wasmtime::Result<&Arc<dyn Imports>> {
        self.imports(Ok(()))?.map_err(wasmtime::Error::new)
    }

    /// Stops counting the last result: a guest that calls the host again has it.
    fn received(&mut self) {
        if self.answer.bytes() > 0 {
            self.answer.shrink(usize::MAX);
        }
    }

    /// Counts a result until the guest has it, if it is large.
    fn count_answer(&mut self, bytes: usize) -> Result<(), ApiError> {
        if bytes < LARGE_ANSWER {
            return Ok(());
        }
        self.answer
            .grow(bytes)
            .inspect_err(|_| self.tally.hits.hit(Limit::Held))
    }

    /// Counts bytes that the host holds for the guest. Traps beyond the limit.
    fn stage(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.staged = self.staged.saturating_add(bytes);
        if self.staged > self.limits.staged_bytes {
            let limit = self.limits.staged_bytes;
            self.hit(Limit::Staged);
            return Err(trap(format!(
                "its cursors and batches hold more than their limit of {limit} bytes"
            )));
        }
        self.held.grow(bytes).map_err(|error| {
            self.hit(Limit::Held);
            trap(error.message)
        })
    }

    /// Stops counting bytes that the host no longer holds.
    fn unstage(&mut self, bytes: usize) {
        self.staged = self.staged.saturating_sub(bytes);
        self.held.shrink(bytes);
    }

    /// Fails if a result is larger than the plugin's limit, or than the rest of its budget.
    fn check_size(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, types::Error> {
        let limit = self.limits.answer_bytes;
        if bytes.len() > limit {
            self.hit(Limit::Answer);
            let message = format!(
                "the result has {} bytes, more than the plugin's limit of {limit}",
                bytes.len()
            );
            return Err(ApiError::full(message).into());
        }
        self.count_answer(bytes.len())?;
        Ok(bytes)
    }

    /// Converts the error of creating a handle into a trap.
    fn handle_error(&self, error: ResourceTableError) -> wasmtime::Error {
        match error {
            ResourceTableError::Full => {
                self.hit(Limit::Handles);
                trap(format!(
                    "it holds more than its limit of {} cursors and batches",
                    self.limits.handles
                ))
            }
            other => other.into(),
        }
    }

    fn hit(&self, limit: Limit) {
        self.tally.hits.hit(limit);
    }

    fn keep_last_error(&mut self, message: &str) {
        self.last_error = Some(last_error_tail(message).into());
    }
}

impl types::Host for InstanceState {}

impl From<types::ObjectReference> for ObjectReference {
    fn from(object: types::ObjectReference) -> Self {
        let types::ObjectReference {
            kind,
            namespace,
            name,
            uid,
        } = object;
        Self {
            kind,
            namespace,
            name,
            uid,
        }
    }
}

impl From<ApiError> for types::Error {
    fn from(error: ApiError) -> Self {
        Self {
            status: error.status,
            reason: error.reason,
            message: error.message,
            effect: match error.effect {
                Effect::None => types::Effect::None,
                Effect::Refused => types::Effect::Refused,
                Effect::Unknown => types::Effect::Unknown,
            },
            retry_after_ms: error.retry_after_ms,
        }
    }
}

/// The guest violated a rule of the sandbox. The message is a clause whose subject is the guest or its data.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RuleViolation(pub(crate) String);

/// Returns the error that ends the call because the guest violated a rule.
fn trap(message: String) -> wasmtime::Error {
    wasmtime::Error::new(RuleViolation(message))
}

/// Converts bytes for a guest. Copies them only if they are shared.
pub(crate) fn owned(bytes: Bytes) -> Vec<u8> {
    bytes.into()
}

/// Bytes that a list of strings holds.
fn size_of_strings(strings: &[String]) -> usize {
    strings
        .iter()
        .map(|string| size_of::<String>() + size_of_block(string.len()))
        .sum()
}

/// Returns the end of a text, at most [`MAX_LAST_ERROR`] bytes.
fn last_error_tail(text: &str) -> &str {
    let text = text.trim();
    let mut start = text.len().saturating_sub(MAX_LAST_ERROR);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
