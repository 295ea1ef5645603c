//! A component whose code is loaded, which a [`crate::Plugin`] is created from, and its code, which is unloaded while
//! it does not run.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::cloud::PROVIDER;
use crate::code_cache::CachedFile;
use crate::deserialize::{deserialize, map};

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
    /// The source to load the code from; none if it was compiled by this process or is part of the binary.
    stored: Option<Stored>,
}

/// Compiled code that is not loaded into the engine.
#[derive(Clone)]
pub(crate) enum Stored {
    /// A file of the cache, from which the code is mapped.
    File(Arc<CachedFile>),
    Bytes(Bytes),
}

impl Code {
    /// `code` must have been mapped from `file`.
    pub(crate) fn mapped(code: wasmtime::component::Component, file: CachedFile) -> Self {
        Self {
            stored: Some(Stored::File(Arc::new(file))),
            ..code.into()
        }
    }

    /// Code that is loaded when it is needed first.
    pub(crate) fn stored_as(engine: &wasmtime::Engine, stored: Stored) -> Self {
        Self {
            engine: engine.clone(),
            loaded: Mutex::new(None),
            stored: Some(stored),
        }
    }

    /// The code as another process can load it.
    pub(crate) fn stored(&self) -> std::io::Result<Stored> {
        match (&self.stored, &*self.loaded.lock()) {
            (Some(stored), _) => Ok(stored.clone()),
            (None, Some(code)) => {
                let code = code.serialize().map_err(std::io::Error::other)?;
                Ok(Stored::Bytes(code.into()))
            }
            (None, None) => unreachable!("only code that is stored is unloaded"),
        }
    }

    /// Returns the code. Loads it if it is unloaded. To map a file may take a millisecond.
    pub(crate) fn load(&self) -> wasmtime::Result<wasmtime::component::Component> {
        let mut loaded = self.loaded.lock();
        let code = match (&*loaded, &self.stored) {
            (Some(code), _) => return Ok(code.clone()),
            (None, Some(Stored::File(file))) => map(&self.engine, file)?,
            (None, Some(Stored::Bytes(code))) => deserialize(&self.engine, code)?,
            (None, None) => unreachable!("only code that is stored is unloaded"),
        };
        Ok(loaded.insert(code).clone())
    }

    /// Unloads the code if it can be loaded again, and returns whether it can. Its memory is freed as soon as no
    /// instance uses it.
    pub(crate) fn unload(&self) -> bool {
        let can_be_loaded = self.stored.is_some();
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
            stored: None,
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

    /// Whether the component exports a cloud. Loads the code if it is unloaded; false if that fails.
    pub fn is_provider(&self) -> bool {
        let code = self.code.load();
        code.is_ok_and(|code| code.get_export_index(None, PROVIDER).is_some())
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
