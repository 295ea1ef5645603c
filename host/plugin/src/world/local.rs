//! The imports that need no objects: `clock`, `random`, `log`, `metrics`, `config` and `memo`. None of them waits.

use std::time::UNIX_EPOCH;

use super::arguments::{self, Checked, name};
use super::{InstanceState, owned, trap};
use crate::bindings::flyball::controller::types::Time;
use crate::bindings::flyball::controller::{clock, config, log, memo, metrics, random};
use crate::imports::LogLevel;

/// Maximum number of random bytes that one import returns. Names and jitter need few.
const MAX_RANDOM_BYTES: u32 = 65_536;

impl clock::Host for InstanceState {
    fn now(&mut self) -> wasmtime::Result<Time> {
        let since = self
            .imports_without_texts()?
            .clock_now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = u32::try_from(since.as_secs()).unwrap_or(u32::MAX);
        Ok(Time {
            seconds,
            nanoseconds: since.subsec_nanos(),
        })
    }
}

impl random::Host for InstanceState {
    fn bytes(&mut self, count: u32) -> wasmtime::Result<Vec<u8>> {
        if count > MAX_RANDOM_BYTES {
            return Err(trap(format!(
                "it requested {count} random bytes at once, more than the limit of {MAX_RANDOM_BYTES}"
            )));
        }
        let mut bytes = vec![0; count as usize];
        self.imports_without_texts()?.random_bytes(&mut bytes);
        Ok(bytes)
    }
}

impl log::Host for InstanceState {
    fn write(
        &mut self,
        level: log::Level,
        mut message: String,
        fields: Vec<log::Field>,
    ) -> wasmtime::Result<()> {
        arguments::clip_message(&mut message);
        if level == log::Level::Error {
            self.keep_last_error(&message);
        }
        let mut fields: Vec<_> = fields
            .into_iter()
            .map(|field| (field.name, field.value))
            .collect();
        arguments::clip_fields(&mut fields);
        self.imports_without_texts()?
            .log_write(level.into(), &message, &fields);
        Ok(())
    }

    fn enabled(&mut self, level: log::Level) -> wasmtime::Result<bool> {
        Ok(self.imports_without_texts()?.log_enabled(level.into()))
    }
}

impl From<log::Level> for LogLevel {
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Trace => Self::Trace,
            log::Level::Debug => Self::Debug,
            log::Level::Info => Self::Info,
            log::Level::Warn => Self::Warn,
            log::Level::Error => Self::Error,
        }
    }
}

impl metrics::Host for InstanceState {
    fn add(&mut self, name: String, labels: Vec<String>, value: f64) -> wasmtime::Result<()> {
        if let Ok(imports) = self.imports(checked_metric(&name, &labels))? {
            imports.metrics_add(&name, &labels, value);
        }
        Ok(())
    }

    fn set(&mut self, name: String, labels: Vec<String>, value: f64) -> wasmtime::Result<()> {
        if let Ok(imports) = self.imports(checked_metric(&name, &labels))? {
            imports.metrics_set(&name, &labels, value);
        }
        Ok(())
    }

    fn observe(&mut self, name: String, labels: Vec<String>, value: f64) -> wasmtime::Result<()> {
        if let Ok(imports) = self.imports(checked_metric(&name, &labels))? {
            imports.metrics_observe(&name, &labels, value);
        }
        Ok(())
    }
}

/// A value of a metric whose name or labels are too long is dropped.
fn checked_metric(metric: &str, labels: &[String]) -> Checked {
    name("the name of a metric", metric)?;
    arguments::labels(labels)
}

impl config::Host for InstanceState {
    fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        let imports = self.imports(name("the key", &key))?;
        Ok(imports.ok().and_then(|imports| imports.config_get(&key)))
    }
}

impl memo::Host for InstanceState {
    fn get(&mut self, key: String) -> wasmtime::Result<Option<memo::Entry>> {
        let imports = self.imports(name("the key", &key))?;
        let entry = imports.ok().and_then(|imports| imports.memo_get(&key));
        let size = entry.as_ref().map_or(0, |entry| entry.value.len());
        self.count_answer(size)
            .map_err(|error| trap(error.message))?;
        Ok(entry.map(|entry| memo::Entry {
            value: owned(entry.value),
            version: entry.version,
        }))
    }

    fn put(
        &mut self,
        key: String,
        expected: u32,
        value: Vec<u8>,
        object_uid: String,
        ttl_ms: u32,
    ) -> wasmtime::Result<Result<u32, memo::Error>> {
        let checked = name("the key", &key).and_then(|()| name("the UID", &object_uid));
        let put = self.imports(checked)?.and_then(|imports| {
            imports.memo_put(&key, expected, value.into(), &object_uid, ttl_ms)
        });
        Ok(put.map_err(memo::Error::from))
    }

    fn remove(&mut self, key: String) -> wasmtime::Result<()> {
        if let Ok(imports) = self.imports(name("the key", &key))? {
            imports.memo_remove(&key);
        }
        Ok(())
    }
}
