//! The engine: the settings that all guests share, the threads that they run on and the room for their instances. Made
//! once by the process; everything else in this crate hangs from it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::component::Component;
use crate::error::{EngineError, LoadError};

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Threads that guests run on; 0 for one a core. Default: 0.
    pub threads: usize,
    /// Instances at once over all plugins; an instance with several memories counts for as many. Each reserves 4 GiB of
    /// addresses, not of memory. Default: 1,000.
    pub max_instances: u32,
    /// Bytes that the file of a plugin may have. Default: 64 MiB (a guest in Python has 18).
    pub max_component_bytes: usize,
    /// Where compiled plugins are kept over restarts; none to compile each time. Made if it isn't there. It must belong to
    /// this process's user and be closed to all others, because what lies there is run. Default: none.
    pub cache: Option<PathBuf>,
    /// Bytes that the cache may hold; what was not used for longest goes first. Default: 1 GiB.
    pub cache_bytes: u64,
    /// How often a guest that computes is interrupted, to let others run and to check its limits. Default: 5 ms.
    pub tick: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            max_instances: 1000,
            max_component_bytes: 64 * 1024 * 1024,
            cache: None,
            cache_bytes: 1024 * 1024 * 1024,
            tick: Duration::from_millis(5),
        }
    }
}

/// The engine of all plugins. Clones are the same engine; the last one dropped ends its threads.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

/// What all parts of the runtime share.
pub(crate) struct Shared {}

impl Engine {
    /// Sets the engine up: reserves the pool of instances and starts the threads.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let _ = options;
        Ok(Self { shared: Arc::new(Shared {}) })
    }

    /// Checks and compiles a component, or takes it from the cache. May take seconds, on a thread of its own.
    pub async fn load(&self, wasm: Bytes) -> Result<Component, LoadError> {
        let _ = wasm;
        Err(LoadError::Shutdown)
    }

    /// A component that is part of the host's own binary, together with what [`Engine::precompile`] made of it when the
    /// host was built. Compiles `wasm` if `cwasm` does not fit this engine or machine.
    pub async fn load_precompiled(&self, wasm: &'static [u8], cwasm: &'static [u8]) -> Result<Component, LoadError> {
        let _ = (wasm, cwasm);
        Err(LoadError::Shutdown)
    }

    /// Compiles a component for [`Engine::load_precompiled`], for any machine of this architecture. Blocks: for builds.
    pub fn precompile(&self, wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        let _ = wasm;
        Err(LoadError::Shutdown)
    }
}
