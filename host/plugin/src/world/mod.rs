//! What a guest imports: a module for each interface of the world, which translates it into [`Imports`], and the state of an
//! instance, which they share. An error that a guest may see is a WIT error; a broken rule of the sandbox is a trap.

mod events;
mod http;
pub(crate) mod lister;
mod queue;
pub(crate) mod reader;
mod services;
mod staged;
mod wasi;
pub(crate) mod writer;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_types::{ApiError, Effect, printable};
use wasmtime::component::{HasSelf, Linker, ResourceTable, ResourceTableError};

use crate::bindings::Controller;
use crate::bindings::flyball::controller::types;
use crate::hits::Limit;
use crate::imports::{Imports, ObjectReference};
use crate::limits::{Limits, MemoryMeter};
use crate::meter::Meter;
use crate::pool::Tally;
use wasi::Wasi;

/// Bytes of the guest's own words that are kept to explain its trap.
const SAID: usize = 2048;

/// The state of one instance, and of the call that it serves.
pub(crate) struct State {
    /// Of the running call.
    imports: Option<Arc<dyn Imports>>,
    limits: Arc<Limits>,
    pub(crate) memory: MemoryMeter,
    pub(crate) meter: Arc<Meter>,
    tally: Arc<Tally>,
    /// The cursors and batches that the guest holds.
    handles: ResourceTable,
    /// Bytes that they hold together.
    staged: usize,
    /// The last error that the guest logged in this call.
    said: Option<String>,
    /// Created when the guest first calls a function of WASI; most never do.
    wasi: Option<Wasi>,
}

/// Links all imports of the world, and WASI.
pub(crate) fn link(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    Controller::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    http::link(&mut linker)?;
    Ok(linker)
}

impl State {
    pub(crate) fn new(limits: Arc<Limits>, meter: Arc<Meter>, tally: Arc<Tally>) -> Self {
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(limits.handles);
        Self {
            imports: None,
            memory: MemoryMeter::new(limits.memory),
            limits,
            meter,
            tally,
            handles,
            staged: 0,
            said: None,
            wasi: None,
        }
    }

    /// Begins a call with these imports.
    pub(crate) fn begin_call(&mut self, imports: Arc<dyn Imports>) {
        self.meter.reset();
        self.memory.begin_call();
        self.said = None;
        if let Some(wasi) = &self.wasi {
            wasi.begin_call(imports.clone());
        }
        self.imports = Some(imports);
    }

    /// Ends a call: nothing of it stays but the handles that the guest did not drop, which are emptied.
    pub(crate) fn end_call(&mut self) {
        self.imports = None;
        if let Some(wasi) = &self.wasi {
            wasi.end_call();
        }
        if self.staged > 0 || !self.handles.is_empty() {
            self.staged = 0;
            for entry in self.handles.iter_mut() {
                if let Some(cursor) = entry.downcast_mut::<lister::OpenCursor>() {
                    cursor.end();
                } else if let Some(batch) = entry.downcast_mut::<reader::OpenBatch>() {
                    batch.end();
                } else if let Some(batch) = entry.downcast_mut::<writer::OpenBatch>() {
                    batch.end();
                }
            }
        }
    }

    /// How many handles the guest holds.
    pub(crate) fn held_handles(&mut self) -> usize {
        if self.handles.is_empty() {
            0
        } else {
            self.handles.iter_mut().count()
        }
    }

    /// The guest's own explanation of its failure, if it logged one.
    pub(crate) fn said(&self) -> Option<String> {
        let said = self.said.clone().or_else(|| self.wasi.as_ref()?.said())?;
        Some(printable(&said))
    }

    /// How much of a core the call may use.
    pub(crate) fn cpu_limit(&self) -> Duration {
        self.limits.cpu_per_call
    }

    /// The imports of the running call.
    fn imports(&self) -> wasmtime::Result<&Arc<dyn Imports>> {
        self.imports
            .as_ref()
            .ok_or_else(|| wasmtime::Error::msg("the guest called the host between two calls"))
    }

    /// Counts bytes that the host holds for the guest.
    fn stage(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.staged = self.staged.saturating_add(bytes);
        if self.staged > self.limits.staged_bytes {
            let limit = self.limits.staged_bytes;
            self.hit(Limit::Staged);
            return Err(trap(format!(
                "its cursors and batches hold more than their limit of {limit} bytes"
            )));
        }
        Ok(())
    }

    /// Counts them no more.
    fn unstage(&mut self, bytes: usize) {
        self.staged = self.staged.saturating_sub(bytes);
    }

    /// A result for the guest, unless it is larger than the plugin's limit.
    fn result(&self, result: Result<Vec<u8>, ApiError>) -> Result<Vec<u8>, types::Error> {
        let bytes = result.map_err(types::Error::from)?;
        let limit = self.limits.answer_bytes;
        if bytes.len() > limit {
            self.hit(Limit::Answer);
            let message = format!(
                "the result has {} bytes, more than the plugin's limit of {limit}",
                bytes.len()
            );
            return Err(ApiError::full(message).into());
        }
        Ok(bytes)
    }

    /// Explains why a handle could not be created.
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

    /// Counts a limit that the guest has hit.
    fn hit(&self, limit: Limit) {
        self.tally.hits.hit(limit);
    }

    /// Keeps the last error that the guest logged.
    fn say(&mut self, message: &str) {
        self.said = Some(clip(message).into());
    }
}

impl types::Host for State {}

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

/// A rule of the sandbox that the guest broke, as half a sentence about it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(pub(crate) String);

/// Ends the call, because the guest broke a rule.
fn trap(rule: String) -> wasmtime::Error {
    wasmtime::Error::new(Broken(rule))
}

/// The bytes for a guest; copied only if others hold them too.
pub(crate) fn owned(bytes: Bytes) -> Vec<u8> {
    bytes.into()
}

/// Bytes that a list of texts holds.
fn size_of_texts(texts: &[String]) -> usize {
    texts
        .iter()
        .map(|text| size_of::<String>() + text.len())
        .sum()
}

/// The end of a text, at most [`SAID`] bytes.
fn clip(text: &str) -> &str {
    let text = text.trim();
    let mut start = text.len().saturating_sub(SAID);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
