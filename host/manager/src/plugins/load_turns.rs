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
/// The most packages that are pulled from one registry concurrently. Each is in memory until it is verified, and a
/// registry that is slow holds up no packages of another one.
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
    Bytes(Bytes),
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
        let compiled = self.compile(engine, &origin, &content, is_expected, on_step);
        let component = compiled.await?;
        on_step(Step::AwaitsDescribing);
        let _turn = self.describing.turn(is_expected).await;
        on_step(Step::Describing);
        match load::describe(engine, origin, &component, BTreeMap::new()).await {
            Ok(plugin) => Ok((plugin, component)),
            Err(error) => Err(self.noted(component.digest(), error)),
        }
    }

    /// Waits for a turn to pull a package from this registry. It ends when the result is dropped.
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
        content: &Content,
        is_expected: bool,
        on_step: OnStep<'_>,
    ) -> Result<Component, PluginError> {
        on_step(Step::AwaitsCompiling);
        let turn = self.compiling.turn(is_expected).await;
        on_step(Step::Compiling);
        let mut compiling = Box::pin(self.compile_now(engine, origin, content));
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
        self.compile_now(engine, origin, content).await
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
        let wasm = match self {
            Self::File { path, .. } => load::read(engine, path).await?,
            Self::Bytes(wasm) => wasm.clone(),
        };
        let failed = |source| PluginError::Read {
            origin: origin.text(),
            source,
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
            Self::File { .. } | Self::Bytes(_) => Ok((wasm, found)),
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use flyball_fakes::memory::is_alone;
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
    async fn a_registry_that_is_slow_holds_up_no_other_one() {
        let turns = LoadTurns::default();
        let _slow = [turns.pulling("slow").await, turns.pulling("slow").await];
        assert!(turns.pulling("slow").now_or_never().is_none());
        let other = turns.pulling("other").now_or_never();
        assert!(other.flatten().is_some());
    }

    /// The most memory that this process has had since [`reset_peak`], in bytes.
    #[cfg(target_os = "linux")]
    fn peak() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.unwrap().trim_end_matches("kB").trim();
        kib.parse::<usize>().unwrap() << 10
    }

    #[cfg(target_os = "linux")]
    fn reset_peak() {
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
    }

    /// Files without a grant, each of which is a component as far as its first bytes tell.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn files_that_wait_for_their_turn_take_no_memory() {
        const TEST: &str =
            "plugins::load_turns::tests::files_that_wait_for_their_turn_take_no_memory";
        const FILES: usize = 12;
        const SIZE: usize = 32 << 20;
        if !is_alone(TEST) {
            return;
        }
        let engine = Engine::new(EngineOptions {
            max_instances: 1,
            ..EngineOptions::default()
        })
        .unwrap();
        let (home, turns) = (tempfile::tempdir().unwrap(), LoadTurns::default());
        reset_peak();
        let before = peak();
        let loads = (0..FILES).map(|number| {
            let path = home.path().join(format!("{number}.wasm"));
            std::fs::write(&path, b"\0asm\x0d\0\x01\0").unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(SIZE as u64).unwrap();
            let origin = Origin::File(path.clone());
            let content = Content::File { path, digest: None };
            turns.load(&engine, origin, content, false, &|_| ())
        });
        for loaded in futures::future::join_all(loads).await {
            loaded.map(drop).unwrap_err();
        }
        let grown = peak().saturating_sub(before);
        assert!(grown >= SIZE, "{grown} bytes: the files were not read");
        assert!(grown < FILES / 2 * SIZE, "{grown} bytes");
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
            let content = Content::File {
                path: path.clone(),
                digest: None,
            };
            let loaded = turns.load(&engine, Origin::File(path.clone()), content, true, &|_| ());
            loaded.await.map(drop).unwrap_err().to_string()
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
        turns.noted(&digest, slow);
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
        turns.noted(&digest, failure("describe trapped", false));
        assert_eq!(load().await, first);
        turns.noted(&digest, failure("describe used 10s of CPU time", true));
        assert!(load().await.contains("10s of CPU time"));
    }
}
