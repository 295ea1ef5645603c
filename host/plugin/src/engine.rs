//! The engine: the settings that all guests share, the threads that they run on and the room for their instances. Made
//! once by the process; everything else in this crate hangs from it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wasmtime::component::Linker;

use crate::cache::Cache;
use crate::component::Component;
use crate::error::{EngineError, LoadError};
use crate::room::Room;
use crate::threads::Threads;
use crate::ticker::Ticker;
use crate::world::{self, State};
use crate::{compile, settings};

/// How the engine is set up.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Threads that guests run on; 0 for one a core, and two at least, so that one guest that computes keeps no other from
    /// a thread. Default: 0.
    pub threads: usize,
    /// Instances at once over all plugins; an instance with several memories counts for as many. Each reserves 4 GiB of
    /// addresses, not of memory. Default: 1,000.
    pub max_instances: u32,
    /// Bytes that the file of a plugin may have. Default: 64 MiB (a guest in Python has 18).
    pub max_component_bytes: usize,
    /// Where compiled plugins are kept over restarts; none to compile each time. Made if it isn't there. It must belong to
    /// this process's user and be closed to all others, because what lies there is run. Default: none.
    pub cache: Option<PathBuf>,
    /// Bytes that the cache may hold; the least recently used is deleted first. Default: 1 GiB.
    pub cache_bytes: u64,
    /// How often a guest that computes is interrupted, to let others run and to check its limits. It is about what a call of
    /// one plugin may have to wait for one of another where there are fewer cores than threads that compute. Default: 2 ms.
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
            tick: Duration::from_millis(2),
        }
    }
}

/// A component that is part of a binary.
#[derive(Clone, Copy)]
pub struct Precompiled {
    /// Its [`digest`](crate::digest).
    pub digest: &'static str,
    /// The component.
    pub wasm: &'static [u8],
    /// The result of [`Engine::precompile`].
    pub cwasm: &'static [u8],
}

impl std::fmt::Debug for Precompiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Precompiled").field(&self.digest).finish()
    }
}

/// The engine of all plugins. Clones are the same engine; the last one dropped ends its threads.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

/// What all parts of the runtime share.
pub(crate) struct Shared {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) room: Room,
    pub(crate) ticker: Ticker,
    cache: Option<Cache>,
    max_component_bytes: usize,
    /// The threads of the guests. Only taken out to be ended.
    threads: Option<Threads>,
}

impl Engine {
    /// Sets the engine up: reserves the pool of instances and starts the threads.
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
                allow_open_files();
                Some(Cache::open(directory, &wasmtime, options.cache_bytes)?)
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
            room: Room::new(instances),
            ticker,
            cache,
            max_component_bytes: options.max_component_bytes,
            threads: Some(threads),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Checks and compiles a component, or takes it from the cache. May take seconds, on a thread of its own.
    pub async fn load(&self, wasm: Bytes) -> Result<Component, LoadError> {
        self.shared
            .block(move |shared| {
                compile::load(
                    &shared.wasmtime,
                    shared.cache.as_ref(),
                    &wasm,
                    shared.max_component_bytes,
                )
            })
            .await
    }

    /// A component that is part of the host's own binary, together with the result of [`Engine::precompile`] of when
    /// the host was built. Compiles it if that does not fit this engine or machine.
    pub async fn load_precompiled(&self, code: Precompiled) -> Result<Component, LoadError> {
        self.shared
            .block(move |shared| {
                let limit = shared.max_component_bytes;
                compile::load_precompiled(&shared.wasmtime, shared.cache.as_ref(), code, limit)
            })
            .await
    }

    /// Compiles a component for [`Engine::load_precompiled`], for any machine of this architecture and system. Blocks, and
    /// needs no engine: for builds.
    pub fn precompile(wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        let compiler = settings::portable().and_then(|config| wasmtime::Engine::new(&config));
        let compiler = compiler.map_err(|error| LoadError::Compile(format!("{error:#}")))?;
        compile::precompile(
            &compiler,
            wasm,
            EngineOptions::default().max_component_bytes,
        )
    }
}

/// Raises the limit on open files as far as this process may: each plugin whose code is mapped holds one or two. Servers
/// written in Go do the same when they start.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // Without it there is room for fewer plugins, and who comes too late is told so.
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
    /// The threads of the guests. None if the engine ends.
    pub(crate) fn threads(&self) -> Option<&Threads> {
        self.threads.as_ref()
    }

    /// Runs what blocks, on a thread for that.
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
        // The last owner may be a task on some runtime, where waiting for threads would panic.
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
