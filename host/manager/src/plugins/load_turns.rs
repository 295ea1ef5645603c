//! Loads plugins from files, packages and stored versions: limits how many are compiled and described concurrently, and
//! keeps slow ones, and those that nothing is granted to, from delaying others. A file is in memory only during its turn
//! to be compiled. A file that exceeded its time is not loaded again.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{Component, DescribeError, Engine, LoadError};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::plugins::load::{self, LoadedPlugin, Origin, PluginError};
use crate::plugins::rollback::KeptVersion;

/// The most components that are compiled concurrently, as long as none takes long. Compiling one uses all cores.
const COMPILED_AT_ONCE: usize = 2;
/// The most of them that need not hold a plugin that the policy names.
const UNEXPECTED_COMPILED_AT_ONCE: usize = 1;
/// The most plugins that describe themselves concurrently. Most of them take milliseconds.
const DESCRIBED_AT_ONCE: usize = 4;
/// The most of them that the policy need not name.
const UNEXPECTED_DESCRIBED_AT_ONCE: usize = 3;
/// The most components that are compiled concurrently although they take long.
const SLOW_AT_ONCE: usize = 1;
/// The most packages that are pulled from one registry concurrently. Each is in memory until it is verified and in the
/// cache, and a registry that is slow holds up no packages of another one.
const PULLED_AT_ONCE: usize = 2;
/// How long a component may be compiled while others wait. The guests of most toolchains take less.
pub(crate) const SLOW: Duration = Duration::from_secs(20);
/// The most files that are remembered because they exceeded their time.
const REMEMBERED: usize = 1000;

/// The turns of plugins that are being loaded, and the files that exceeded their time.
pub(crate) struct LoadTurns {
    compiling: Turns,
    describing: Turns,
    slow: Semaphore,
    /// The turns of pulls, by registry.
    pulling: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// The errors of files that exceeded their time, by digest.
    refused: Mutex<HashMap<String, String>>,
}

/// The turns of one step of loading. Some are reserved for files that can hold a plugin that the policy names.
struct Turns {
    all: Semaphore,
    unexpected: Semaphore,
}

/// A component that is yet to be read.
pub(crate) enum Content {
    File {
        path: PathBuf,
        /// The only digest that the file may have; none if it may have any.
        digest: Option<String>,
    },
    Kept(KeptVersion),
    /// Of a package that is not in the cache of packages.
    Pulled {
        wasm: Bytes,
        /// The turn to pull it, until it is its turn to be compiled: meanwhile, few others may take memory. None then.
        turn: Option<OwnedSemaphorePermit>,
    },
}

/// A step of loading a plugin. Its text is a sentence about the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    AwaitsCompiling,
    Compiling,
    AwaitsDescribing,
    Describing,
}

/// Is told each step of a load as it begins.
pub(crate) type OnStep<'a> = &'a (dyn Fn(Step) + Send + Sync);

/// A turn to load a plugin. It ends when this is dropped.
struct Turn<'a> {
    _turn: Option<SemaphorePermit<'a>>,
    _unexpected: Option<SemaphorePermit<'a>>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AwaitsCompiling => "waits for its turn to be compiled",
            Self::Compiling => "is being compiled",
            Self::AwaitsDescribing => "waits for its turn to describe itself",
            Self::Describing => "its `describe` is running",
        })
    }
}

impl Default for LoadTurns {
    fn default() -> Self {
        Self {
            compiling: Turns::new(COMPILED_AT_ONCE, UNEXPECTED_COMPILED_AT_ONCE),
            describing: Turns::new(DESCRIBED_AT_ONCE, UNEXPECTED_DESCRIBED_AT_ONCE),
            slow: Semaphore::new(SLOW_AT_ONCE),
            pulling: Mutex::default(),
            refused: Mutex::default(),
        }
    }
}

impl Turns {
    fn new(all: usize, unexpected: usize) -> Self {
        Self {
            all: Semaphore::new(all),
            unexpected: Semaphore::new(unexpected),
        }
    }

    /// Waits for a turn.
    async fn turn(&self, is_expected: bool) -> Turn<'_> {
        // The semaphores are never closed.
        let _unexpected = match is_expected {
            true => None,
            false => self.unexpected.acquire().await.ok(),
        };
        Turn {
            _turn: self.all.acquire().await.ok(),
            _unexpected,
        }
    }
}

impl LoadTurns {
    /// Reads, compiles and describes a component. `is_expected` says that it can hold a plugin that the policy names.
    /// `describe` gets no configuration, because the operator's configuration is found by the plugin's name, which is in
    /// its description.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        origin: Origin,
        content: Content,
        is_expected: bool,
        on_step: OnStep<'_>,
    ) -> Result<(LoadedPlugin, Component), PluginError> {
        let compiled = self.compile(engine, &origin, content, is_expected, on_step);
        let component = compiled.await?;
        on_step(Step::AwaitsDescribing);
        let _turn = self.describing.turn(is_expected).await;
        on_step(Step::Describing);
        match load::describe(engine, origin, &component, BTreeMap::new()).await {
            Ok(plugin) => Ok((plugin, component)),
            Err(error) => Err(self.noted(component.digest(), error)),
        }
    }

    /// Waits for a turn to pull a package from this registry. It ends when the result is dropped: once the package is in
    /// the cache, or is being compiled.
    pub(crate) async fn pulling(&self, registry: &str) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut pulling = self.pulling.lock();
            let turns = pulling.entry(registry.to_owned());
            let turns = turns.or_insert_with(|| Arc::new(Semaphore::new(PULLED_AT_ONCE)));
            turns.clone()
        };
        // The semaphore is never closed.
        turns.acquire_owned().await.ok()
    }

    /// Calls `describe` again, with the operator's configuration for the plugin's name.
    pub(crate) async fn describe_with(
        &self,
        config: BTreeMap<String, String>,
        plugin: &LoadedPlugin,
        engine: &Engine,
        component: &Component,
    ) -> Result<LoadedPlugin, PluginError> {
        let _turn = self.describing.turn(true).await;
        load::describe_with(config, plugin, engine, component).await
    }

    /// Reads and compiles a component. If that takes long, it gives up its turn, and continues at once only if no other
    /// slow one is compiled.
    async fn compile(
        &self,
        engine: &Engine,
        origin: &Origin,
        mut content: Content,
        is_expected: bool,
        on_step: OnStep<'_>,
    ) -> Result<Component, PluginError> {
        on_step(Step::AwaitsCompiling);
        let turn = self.compiling.turn(is_expected).await;
        on_step(Step::Compiling);
        if let Content::Pulled { turn, .. } = &mut content {
            *turn = None;
        }
        let mut compiling = Box::pin(self.compile_now(engine, origin, &content));
        if let Ok(compiled) = tokio::time::timeout(SLOW, compiling.as_mut()).await {
            return compiled;
        }
        drop(turn);
        if let Ok(_slow) = self.slow.try_acquire() {
            return compiling.await;
        }
        drop(compiling);
        on_step(Step::AwaitsCompiling);
        let _slow = self.slow.acquire().await;
        on_step(Step::Compiling);
        self.compile_now(engine, origin, &content).await
    }

    async fn compile_now(
        &self,
        engine: &Engine,
        origin: &Origin,
        content: &Content,
    ) -> Result<Component, PluginError> {
        let (wasm, digest) = content.read(engine, origin).await?;
        if let Some(reason) = self.refused.lock().get(&digest).cloned() {
            let origin = origin.text();
            return Err(PluginError::Refused { origin, reason });
        }
        let compiled = engine.load(wasm).await;
        compiled.map_err(|source| self.noted(&digest, origin.not_loaded(source)))
    }

    /// Remembers a file that exceeded its time, because it would do so again. Returns the error.
    fn noted(&self, digest: &str, error: PluginError) -> PluginError {
        let reason = match &error {
            PluginError::Load {
                source: source @ LoadError::CompileLimit(_),
                ..
            } => source.to_string(),
            PluginError::Describe { source, .. }
                if matches!(**source, DescribeError::Failed { is_slow: true, .. }) =>
            {
                source.to_string()
            }
            _ => return error,
        };
        let mut refused = self.refused.lock();
        if refused.len() >= REMEMBERED {
            refused.clear();
        }
        refused.insert(digest.to_owned(), reason);
        error
    }
}

impl Content {
    /// Reads the component on a blocking thread, and returns it with its digest.
    async fn read(&self, engine: &Engine, origin: &Origin) -> Result<(Bytes, String), PluginError> {
        let failed = |source| PluginError::Read {
            origin: origin.text(),
            source,
        };
        let wasm = match self {
            Self::File { path, .. } => load::read(engine, path).await?,
            Self::Kept(version) => {
                let wasm = version.read().await.map_err(failed)?;
                return Ok((wasm, version.digest().to_owned()));
            }
            Self::Pulled { wasm, .. } => wasm.clone(),
        };
        let digested = move || (flyball_plugin::digest(&wasm), wasm);
        let digested = tokio::task::spawn_blocking(digested).await;
        let (found, wasm) = digested.map_err(|error| failed(io::Error::other(error)))?;
        match self {
            Self::File {
                digest: Some(digest),
                ..
            } if *digest != found => {
                let changed = format!(
                    "it has the digest {found} instead of {digest}: it was changed meanwhile"
                );
                Err(failed(io::Error::other(changed)))
            }
            _ => Ok((wasm, found)),
        }
    }
}

#[cfg(test)]
mod tests;
