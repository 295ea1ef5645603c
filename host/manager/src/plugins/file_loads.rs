//! Loads the files of plugins. Few are loaded concurrently, so that files without a grant never delay the others. A
//! file that exceeded its time is not loaded again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flyball_plugin::{CallFailure, Component, Engine, LoadError};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::plugins::load::{self, LoadedPlugin, Origin, PluginError};

/// The most files that are loaded concurrently. Compiling one uses all cores.
const AT_ONCE: usize = 2;
/// The most of them that need not hold a plugin that the policy names.
const UNEXPECTED_AT_ONCE: usize = 1;
/// The most files that are remembered because they exceeded their time.
const REMEMBERED: usize = 1000;

/// The files that are being loaded, and those that exceeded their time.
pub(crate) struct FileLoads {
    turns: Semaphore,
    unexpected: Semaphore,
    /// The errors of files that exceeded their time, by digest.
    refused: Mutex<HashMap<String, String>>,
}

/// A turn to load a file. It ends when this is dropped.
struct Turn<'a> {
    _turn: Option<SemaphorePermit<'a>>,
    _unexpected: Option<SemaphorePermit<'a>>,
}

impl Default for FileLoads {
    fn default() -> Self {
        Self {
            turns: Semaphore::new(AT_ONCE),
            unexpected: Semaphore::new(UNEXPECTED_AT_ONCE),
            refused: Mutex::default(),
        }
    }
}

impl FileLoads {
    /// Waits for a turn, and reads, compiles and describes a file.
    pub(crate) async fn load(
        &self,
        engine: &Engine,
        path: PathBuf,
        is_expected: bool,
    ) -> Result<(LoadedPlugin, Component, Bytes), PluginError> {
        let _turn = self.turn(is_expected).await;
        let wasm = load::read(engine, &path).await?;
        let (digest, wasm) = digest(&path, wasm).await?;
        if let Some(reason) = self.refused.lock().get(&digest).cloned() {
            let origin = Origin::File(path).text();
            return Err(PluginError::Refused { origin, reason });
        }
        let loaded = load::dropped_in(engine, Origin::File(path), wasm.clone()).await;
        match loaded {
            Ok((plugin, component)) => Ok((plugin, component, wasm)),
            Err(error) => {
                self.note(digest, &error);
                Err(error)
            }
        }
    }

    /// Waits for a turn. One turn is reserved for files that can hold a plugin that the policy names.
    async fn turn(&self, is_expected: bool) -> Turn<'_> {
        // The semaphores are never closed.
        let _unexpected = match is_expected {
            true => None,
            false => self.unexpected.acquire().await.ok(),
        };
        Turn {
            _turn: self.turns.acquire().await.ok(),
            _unexpected,
        }
    }

    /// Remembers a file that exceeded its time, because it would do so again.
    fn note(&self, digest: String, error: &PluginError) {
        let reason = match error {
            PluginError::Load {
                source: source @ LoadError::CompileLimit(_),
                ..
            } => source.to_string(),
            PluginError::Describe { source, .. }
                if matches!(source.failure, CallFailure::CpuLimit { .. }) =>
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
    use std::time::Duration;

    use flyball_plugin::{CallError, CompileLimit, EngineOptions};
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn files_of_which_no_plugin_is_expected_leave_a_turn_for_the_others() {
        let loads = FileLoads::default();
        let first = loads.turn(false).await;
        assert!(loads.turn(false).now_or_never().is_none());
        let expected = loads.turn(true).now_or_never().expect("a turn");
        assert!(loads.turn(true).now_or_never().is_none());
        drop(expected);
        assert!(loads.turn(false).now_or_never().is_none());
        drop(first);
        assert!(loads.turn(false).now_or_never().is_some());
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
        let loads = FileLoads::default();
        let load = async || {
            let loaded = loads.load(&engine, path.clone(), true).await;
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
        loads.note(digest.clone(), &slow);
        let refused = load().await;
        assert!(refused.contains("300 s of CPU time"), "{refused}");
        loads.refused.lock().clear();
        let failure = |failure| PluginError::Describe {
            origin: origin.clone(),
            source: Box::new(CallError {
                call: "describe".into(),
                failure,
                cpu: Duration::ZERO,
            }),
        };
        loads.note(digest.clone(), &failure(CallFailure::Shutdown));
        assert_eq!(load().await, first);
        let spins = CallFailure::CpuLimit {
            used: Duration::from_secs(10),
            limit: Duration::from_secs(10),
            backtrace: None,
        };
        loads.note(digest, &failure(spins));
        assert!(load().await.contains("10s of CPU time"));
    }
}
