//! Why a component could not be loaded and why a call did not return, each in one clear sentence. The caller adds which
//! plugin it was.

use std::path::PathBuf;
use std::time::Duration;

/// The runtime could not be set up. No retry helps: the options or the machine must change.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// An option has an impossible value.
    #[error("the option {option} of the plugin runtime is {value}, which is not a possible value")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// What it was.
        value: String,
    },
    /// The engine refused its settings, or the instance pool could not be reserved.
    #[error("the plugin runtime could not reserve room for {instances} instances: {source:#}")]
    Engine {
        /// How many instances were asked for.
        instances: u32,
        /// What the engine says.
        source: wasmtime::Error,
    },
    /// A thread could not be started.
    #[error("the threads of the plugin runtime could not be started")]
    Threads(#[source] std::io::Error),
    /// The directory of compiled plugins can't be used.
    #[error("the directory {path} can't hold compiled plugins: {reason}")]
    Cache {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// A file could not be loaded as a plugin. No retry helps: the file must change, or the host.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is larger than the host takes.
    #[error("the file has {size} bytes, more than the {limit} that a plugin may have")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The file is not WebAssembly.
    #[error("the file is not WebAssembly in its binary format")]
    NotWasm,
    /// The file is a core module.
    #[error(
        "the file is a core WebAssembly module, not a component; make a component of it with `flyball build` or \
         `wasm-tools component new`"
    )]
    CoreModule,
    /// The file begins like a component and is malformed.
    #[error("the file is not a valid component: {0}")]
    Malformed(String),
    /// The component was compiled against a version of the world that this host does not run.
    #[error(
        "the component was compiled against version {compiled} of the world `flyball:controller`, and this host provides \
         version {provided}: rebuild it with an SDK of version {}", minor(.provided)
    )]
    OtherWorld {
        /// As in `0.1.0`.
        compiled: String,
        /// As in `0.2.0`.
        provided: &'static str,
    },
    /// The component is for another world.
    #[error(
        "the component does not export `{expected}`, so it is not a Flyball controller: {found}"
    )]
    NoGuest {
        /// What is expected of it.
        expected: &'static str,
        /// What it exports instead, as half a sentence.
        found: String,
    },
    /// The component imports what the host does not have.
    #[error("the component imports what this host does not offer: {}", .0.join(", "))]
    UnknownImports(
        /// The names of the imports.
        Vec<String>,
    ),
    /// The component's imports or exports have other types than those of the world.
    #[error("the component does not fit the world `flyball:controller/controller@0.2.0`: {0}")]
    Mismatch(String),
    /// The component needs more instances, memories or tables than the host's pool gives to one plugin.
    #[error("the component can't be compiled: {0}")]
    Compile(String),
    /// The host is shutting down.
    #[error("the host is shutting down")]
    Shutdown,
}

/// A call that did not return. Its instance is thrown away. A retry may help, because the next call has a fresh instance and may
/// see another cache, unless [`CallFailure::Shutdown`].
#[derive(Debug, thiserror::Error)]
#[error("{call} {failure}")]
pub struct CallError {
    /// What was called, as in ``reconcile of `default/web` (queue `replicaset`)``.
    pub call: String,
    /// How it ended.
    pub failure: CallFailure,
    /// The time that it took on a core.
    pub cpu: Duration,
}

/// How a call ended that did not return. Reads on from what was called.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    /// The guest panicked, aborted or broke a rule of its sandbox.
    #[error("trapped: {message}{}", quote(.said))]
    Trap {
        /// The reason in a few words, as in `unreachable`.
        message: String,
        /// The last error that the guest logged in this call, or what it last wrote to stderr: a panic's message.
        said: Option<String>,
        /// The guest's functions, one a line, the innermost first.
        backtrace: Option<String>,
    },
    /// The guest computed for too long.
    #[error("was stopped: it used {used:?} of a core, and its limit is {limit:?}")]
    CpuLimit {
        /// What it had used when it was stopped.
        used: Duration,
        /// The limit.
        limit: Duration,
        /// The guest's functions, one a line, the innermost first.
        backtrace: Option<String>,
    },
    /// The call took too long, most of it waiting.
    #[error(
        "was stopped: it took longer than its limit of {limit:?}, of which it computed for {used:?}"
    )]
    WallLimit {
        /// The time on a core.
        used: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The guest wanted more memory and could not go on without.
    #[error("ran out of memory: it wanted {wanted} bytes, and its limit is {limit}{}", quote(.said))]
    MemoryLimit {
        /// How much memory the instance would have had, in bytes.
        wanted: usize,
        /// The limit, in bytes.
        limit: usize,
        /// As in a trap.
        said: Option<String>,
        /// The guest's functions, one a line, the innermost first.
        backtrace: Option<String>,
    },
    /// No instance could be created.
    #[error("found no instance: {0}")]
    Instantiate(String),
    /// The implementation of the guest's imports panicked: a fault of the host.
    #[error("failed by a fault of the host: {0}")]
    Host(String),
    /// The host is shutting down.
    #[error("was not made: the host is shutting down")]
    Shutdown,
}

impl CallError {
    /// True if the guest is at fault: it trapped, or exceeded a limit.
    pub fn is_of_guest(&self) -> bool {
        !matches!(self.failure, CallFailure::Host(_) | CallFailure::Shutdown)
    }

    /// Whether another try can help.
    pub fn can_retry(&self) -> bool {
        !matches!(self.failure, CallFailure::Shutdown)
    }

    /// The guest's functions at the point of failure, one a line, the innermost first.
    pub fn backtrace(&self) -> Option<&str> {
        match &self.failure {
            CallFailure::Trap { backtrace, .. }
            | CallFailure::CpuLimit { backtrace, .. }
            | CallFailure::MemoryLimit { backtrace, .. } => backtrace.as_deref(),
            _ => None,
        }
    }
}

/// A version without its patch version.
fn minor(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

/// The end of a sentence that quotes the guest.
fn quote(said: &Option<String>) -> String {
    said.as_ref()
        .map(|said| format!("; the guest said: {said}"))
        .unwrap_or_default()
}
