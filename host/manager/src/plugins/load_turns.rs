//! Loads plugins from files, packages and stored versions: limits how many are compiled and described concurrently, and
//! keeps slow ones, and those that nothing is granted to, from delaying others. A file that exceeded its time is not
//! loaded again.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use flyball_plugin::{Component, DescribeError, Engine, LoadError};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::plugins::load::{self, LoadedPlugin, Origin, PluginError};

/// The most components that are compiled concurrently, as long as none takes long. Compiling one uses all cores.
const COMPILED_AT_ONCE: usize = 2;
/// The most of them that need not hold a plugin that the policy names.
const UNEXPECTED_COMPILED_AT_ONCE: usize = 1;
/// The most plugins that describe themselves concurrently, and of those that need not be plugins that the policy names.
/// Most of them take milliseconds.
const DESCRIBED_AT_ONCE: usize = 4;
const UNEXPECTED_DESCRIBED_AT_ONCE: usize = 3;
/// The most components that are compiled concurrently although they take long.
const SLOW_AT_ONCE: usize = 1;
/// How long a component may be compiled while others wait. The guests of most toolchains take less.
pub(crate) const SLOW: Duration = Duration::from_secs(20);
/// The most files that are remembered because they exceeded their time.
const REMEMBERED: usize = 1000;

/// The turns of plugins that are being loaded, and the files that exceeded their time.
pub(crate) struct LoadTurns {
    compiling: Turns,
    describing: Turns,
    slow: Semaphore,
    /// The errors of files that exceeded their time, by digest.
    refused: Mutex<HashMap<String, String>>,
}

/// The turns of one step of loading. Some are reserved for files that can hold a plugin that the policy names.
struct Turns {
    all: Semaphore,
    unexpected: Semaphore,
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
    /// Reads, compiles and describes a file. `is_expected` says that it can hold a plugin that the policy names.
    pub(crate) async fn load_file(
        &self,
        engine: &Engine,
        path: PathBuf,
        is_expected: bool,
        on_step: OnStep<'_>,
    ) -> Result<(LoadedPlugin, Component, Bytes), PluginError> {
        let wasm = load::read(engine, &path).await?;
        let (digest, wasm) = digest(&path, wasm).await?;
        if let Some(reason) = self.refused.lock().get(&digest).cloned() {
            let origin = Origin::File(path).text();
            return Err(PluginError::Refused { origin, reason });
        }
        let origin = Origin::File(path);
        let loaded = self.load(engine, origin, wasm.clone(), is_expected, on_step);
        match loaded.await {
            Ok((plugin, component)) => Ok((plugin, component, wasm)),
            Err(error) => {
                self.note(digest, &error);
                Err(error)
            }
        }
    }

    /// Compiles and describes a component. `describe` gets no configuration, because the operator's configuration is
    /// found by the plugin's name, which is in its description.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        origin: Origin,
        wasm: Bytes,
        is_expected: bool,
        on_step: OnStep<'_>,
    ) -> Result<(LoadedPlugin, Component), PluginError> {
        let component = self.compile(engine, wasm, is_expected, on_step).await;
        let component = component.map_err(|source| origin.not_loaded(source))?;
        on_step(Step::AwaitsDescribing);
        let _turn = self.describing.turn(is_expected).await;
        on_step(Step::Describing);
        let plugin = load::describe(engine, origin, &component, BTreeMap::new()).await?;
        Ok((plugin, component))
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

    /// Compiles a component. If that takes long, it gives up its turn, and continues at once only if no other slow one
    /// is compiled.
    async fn compile(
        &self,
        engine: &Engine,
        wasm: Bytes,
        is_expected: bool,
        on_step: OnStep<'_>,
    ) -> Result<Component, LoadError> {
        on_step(Step::AwaitsCompiling);
        let turn = self.compiling.turn(is_expected).await;
        on_step(Step::Compiling);
        let mut compiling = Box::pin(engine.load(wasm.clone()));
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
        engine.load(wasm).await
    }

    /// Remembers a file that exceeded its time, because it would do so again.
    fn note(&self, digest: String, error: &PluginError) {
        let reason = match error {
            PluginError::Load {
                source: source @ LoadError::CompileLimit(_),
                ..
            } => source.to_string(),
            PluginError::Describe { source, .. }
                if matches!(**source, DescribeError::Failed { is_slow: true, .. }) =>
            {
                source.to_string()
            }
            _ => return,
        };
        let mut refused = self.refused.lock();
        if refused.len() >= REMEMBERED {
            refused.clear();
        }
        refused.insert(digest, reason);
    }
}

/// Computes a file's digest on a blocking thread, and returns it with the file.
async fn digest(path: &Path, wasm: Bytes) -> Result<(String, Bytes), PluginError> {
    let digested = tokio::task::spawn_blocking(move || (flyball_plugin::digest(&wasm), wasm)).await;
    digested.map_err(|error| PluginError::Read {
        origin: Origin::File(path.to_owned()).text(),
        source: std::io::Error::other(error),
    })
}

#[cfg(test)]
mod tests {
    use flyball_plugin::{CompileLimit, EngineOptions};
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn files_of_which_no_plugin_is_expected_leave_a_turn_for_the_others() {
        let turns = Turns::new(2, 1);
        let first = turns.turn(false).await;
        assert!(turns.turn(false).now_or_never().is_none());
        let expected = turns.turn(true).now_or_never().expect("a turn");
        assert!(turns.turn(true).now_or_never().is_none());
        drop(expected);
        assert!(turns.turn(false).now_or_never().is_none());
        drop(first);
        assert!(turns.turn(false).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_file_that_used_up_its_time_is_not_compiled_again() {
        let engine = Engine::new(EngineOptions {
            max_instances: 1,
            ..EngineOptions::default()
        })
        .unwrap();
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("slow.wasm");
        std::fs::write(&path, "no component").unwrap();
        let turns = LoadTurns::default();
        let load = async || {
            let loaded = turns.load_file(&engine, path.clone(), true, &|_| ()).await;
            loaded.map(drop).unwrap_err().to_string()
        };
        let first = load().await;
        assert_eq!(load().await, first, "it fails at once, and is tried again");
        let origin: std::sync::Arc<str> = "slow.wasm".into();
        let digest = flyball_plugin::digest(b"no component");
        let limit = CompileLimit::Cpu(Duration::from_secs(300));
        let slow = PluginError::Load {
            origin: origin.clone(),
            source: LoadError::CompileLimit(limit),
        };
        turns.note(digest.clone(), &slow);
        let refused = load().await;
        assert!(refused.contains("300 s of CPU time"), "{refused}");
        turns.refused.lock().clear();
        let failure = |reason: &str, is_slow| PluginError::Describe {
            origin: origin.clone(),
            source: Box::new(DescribeError::Failed {
                reason: reason.into(),
                is_slow,
            }),
        };
        turns.note(digest.clone(), &failure("describe trapped", false));
        assert_eq!(load().await, first);
        turns.note(digest, &failure("describe used 10s of CPU time", true));
        assert!(load().await.contains("10s of CPU time"));
    }
}
