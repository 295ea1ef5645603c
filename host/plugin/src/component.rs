//! A compiled component, which a [`crate::Plugin`] is created from, and its code, which is unloaded while it does not
//! run.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::cache::CachedFile;
use crate::deserialize::map;

/// A checked and compiled component. Clones share the code.
#[derive(Clone)]
pub struct Component {
    pub(crate) code: Arc<Code>,
    digest: Arc<str>,
    size: usize,
    /// See `footprint.rs`.
    pub(crate) footprint: usize,
}

/// Compiled code. If it is mapped from a file, it can be unloaded, and costs no memory until it is needed again.
pub(crate) struct Code {
    engine: wasmtime::Engine,
    /// The code; none while it is unloaded.
    loaded: Mutex<Option<wasmtime::component::Component>>,
    /// The file that the code is mapped from; none if it was compiled by this process or is part of the binary.
    file: Option<CachedFile>,
}

impl Code {
    /// `code` must have been mapped from `file`.
    pub(crate) fn mapped(code: wasmtime::component::Component, file: CachedFile) -> Self {
        Self {
            file: Some(file),
            ..code.into()
        }
    }

    /// Returns the code. Maps its file if it is unloaded, which may take a millisecond.
    pub(crate) fn load(&self) -> wasmtime::Result<wasmtime::component::Component> {
        let mut loaded = self.loaded.lock();
        match (&*loaded, &self.file) {
            (Some(code), _) => Ok(code.clone()),
            (None, Some(file)) => Ok(loaded.insert(map(&self.engine, file)?).clone()),
            (None, None) => unreachable!("only code that is mapped from a file is unloaded"),
        }
    }

    /// Unloads the code if it can be loaded again, and returns whether it can. Its memory is freed as soon as no
    /// instance uses it.
    pub(crate) fn unload(&self) -> bool {
        let can_be_loaded = self.file.is_some();
        if can_be_loaded {
            *self.loaded.lock() = None;
        }
        can_be_loaded
    }
}

impl From<wasmtime::component::Component> for Code {
    fn from(code: wasmtime::component::Component) -> Self {
        Self {
            engine: code.engine().clone(),
            loaded: Mutex::new(Some(code)),
            file: None,
        }
    }
}

impl Component {
    pub(crate) fn new(code: impl Into<Code>, digest: &str, size: usize) -> Self {
        Self {
            code: Arc::new(code.into()),
            digest: digest.into(),
            size,
            footprint: 0,
        }
    }

    /// Sets the bytes that the engine keeps of an instance. They are unknown for built-ins, whose memory is not
    /// limited.
    pub(crate) fn with_footprint(self, footprint: usize) -> Self {
        Self { footprint, ..self }
    }

    /// The SHA-256 of the component's bytes, in hex. Grants are bound to it.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The size of the component before it was compiled, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Component")
            .field("digest", &self.digest)
            .field("size", &self.size)
            .finish()
    }
}
