//! The engine: the settings that all guests share, the threads that they run on, and the slots for their instances. A
//! process creates one engine, and everything else in this crate belongs to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wasmtime::component::Linker;

use crate::code_cache::CodeCache;
use crate::compile::{Compiler, Stop};
use crate::component::Component;
use crate::embedded::EmbeddedComponent;
use crate::error::{EngineError, LoadError};
use crate::limits::SharedMemory;
use crate::loader::Loader;
use crate::slots::InstanceSlots;
use crate::threads::Threads;
use crate::ticker::Ticker;
use crate::world::{self, InstanceState};
use crate::{format, loader, machine, settings};

/// The most memory that plugins share by default, in bytes.
const MAX_SHARED_MEMORY: usize = 4 << 30;

#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Threads that guests run on. 0 means one per core, but at least two, so that a guest that computes does not block
    /// all others. Default: 0.
    pub threads: usize,
    /// Instance slots for all plugins together. An instance with several memories occupies one slot for each. A slot
    /// reserves 4 GiB of address space, but no memory. Default: 1,000.
    pub max_instances: u32,
    /// Linear memory that the instances of all plugins without [`Limits::is_reserved`](crate::Limits::is_reserved) may
    /// have together, in bytes. Default: half of the memory of this machine or control group, but at most 4 GiB.
    pub shared_memory: usize,
    /// Maximum size of a plugin's file, in bytes. Default: 64 MiB. A Python guest takes 18 MiB.
    pub max_component_bytes: usize,
    /// Where components are compiled. Default: in this process.
    pub compiler: Compiler,
    /// The directory in which compiled plugins are kept across restarts; none to compile at each start. It is created
    /// if it does not exist. It must belong to this process's user and be closed to all others, because its files are
    /// run as native code. Default: none.
    pub cache: Option<PathBuf>,
    /// Maximum size of the cache, in bytes. The least recently used files are deleted first. Default: 1 GiB.
    pub cache_bytes: u64,
    /// How often a guest that computes is interrupted, to check its limits and to let others run. If more guests
    /// compute than there are cores, a call of one plugin may have to wait about this long for a call of another.
    /// Default: 2 ms.
    pub tick: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            max_instances: 1000,
            shared_memory: machine::memory().map_or(MAX_SHARED_MEMORY, |memory| {
                (memory / 2).min(MAX_SHARED_MEMORY)
            }),
            max_component_bytes: format::MAX_BYTES,
            compiler: Compiler::default(),
            cache: None,
            cache_bytes: 1024 * 1024 * 1024,
            tick: Duration::from_millis(2),
        }
    }
}

/// The engine of all plugins. Clones share one engine. Dropping the last clone ends its threads.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

/// The state that all parts of the runtime share.
pub(crate) struct Shared {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<InstanceState>,
    pub(crate) slots: InstanceSlots,
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) ticker: Ticker,
    cache: Option<CodeCache>,
    pub(crate) compiler: Compiler,
    max_component_bytes: usize,
    /// None only while this is dropped.
    threads: Option<Threads>,
}

impl Engine {
    /// Reserves the pool of instances and starts the threads.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let instances = options.max_instances;
        let option = |option, value: String| Err(EngineError::Option { option, value });
        if instances == 0 {
            return option("max_instances", instances.to_string());
        }
        if options.tick.is_zero() {
            return option("tick", format!("{:?}", options.tick));
        }
        let refused = |source| EngineError::Engine { instances, source };
        let wasmtime = wasmtime::Engine::new(&settings::running(instances)).map_err(refused)?;
        let linker = world::link(&wasmtime).map_err(refused)?;
        let cache = match &options.cache {
            Some(directory) => {
                raise_open_file_limit();
                Some(CodeCache::open(directory, &wasmtime, options.cache_bytes)?)
            }
            None => None,
        };
        let epochs = wasmtime.clone();
        let ticker = Ticker::start(options.tick, move || epochs.increment_epoch())
            .map_err(EngineError::Threads)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = Threads::start(if options.threads > 0 {
            options.threads
        } else {
            cores.max(2)
        });
        let threads = threads.map_err(EngineError::Threads)?;
        let shared = Shared {
            wasmtime,
            linker,
            slots: InstanceSlots::new(instances),
            memory: Arc::new(SharedMemory::new(options.shared_memory)),
            ticker,
            cache,
            compiler: options.compiler,
            max_component_bytes: options.max_component_bytes,
            threads: Some(threads),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Checks and compiles a component, or takes its code from the code cache. May take seconds, on a separate thread.
    /// Dropping the future ends the process that compiles.
    pub async fn load(&self, wasm: Bytes) -> Result<Component, LoadError> {
        let shared = self.shared.clone();
        let loading = move |stop: &Stop| loader::load(shared.loader(), &wasm, stop);
        self.shared.in_child(loading).await?
    }

    /// Maximum size of a plugin's file, in bytes.
    pub fn max_component_bytes(&self) -> usize {
        self.shared.max_component_bytes
    }

    /// Loads a component whose code is embedded in the host's binary. Fails if the code was compiled by another version
    /// of this crate or for another architecture.
    pub async fn load_embedded(
        &self,
        component: EmbeddedComponent,
    ) -> Result<Component, LoadError> {
        self.shared
            .block(move |shared| loader::load_embedded(shared.loader(), &component))
            .await
    }
}

/// Raises the limit on open files to the maximum of this process, because each plugin whose code is mapped holds one or
/// two files open. Go programs do the same when they start.
fn raise_open_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If this fails, fewer plugins can be loaded, and loading more fails with an error.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        );
    }
}

impl Shared {
    /// None if the engine shuts down.
    pub(crate) fn threads(&self) -> Option<&Threads> {
        self.threads.as_ref()
    }

    fn loader(&self) -> Loader<'_> {
        Loader {
            engine: &self.wasmtime,
            cache: self.cache.as_ref(),
            compiler: &self.compiler,
            limit: self.max_component_bytes,
        }
    }

    /// Removes the code of a component from the cache.
    pub(crate) fn forget(&self, digest: &str) {
        if let Some(cache) = &self.cache {
            cache.remove(digest);
        }
    }

    /// Runs work that waits for a child process, on a thread for that. Dropping the future stops the work.
    pub(crate) async fn in_child<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Result<T, LoadError> {
        let stop = Stop::default();
        let _stop = stop.on_drop();
        self.block(move |_| Ok(work(&stop))).await
    }

    /// Runs blocking work on a thread for that.
    async fn block<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, LoadError> {
        let shared = self.clone();
        let Some(threads) = self.threads() else {
            return Err(LoadError::Shutdown);
        };
        match threads.block(move || work(&shared)).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => {
                Err(LoadError::Compile("the compiler panicked".into()))
            }
            Err(_) => Err(LoadError::Shutdown),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last owner may be a task on another runtime, in which waiting for threads would panic.
        if let Some(threads) = self.threads.take() {
            threads.end();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}
