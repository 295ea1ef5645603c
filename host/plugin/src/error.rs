//! The errors of loading a component and of calling a guest. Each message is one sentence, to which the caller adds the
//! plugin's name.

use std::path::PathBuf;
use std::time::Duration;

use crate::limits::MemoryOwner;

/// The runtime could not be set up. No retry helps: the options or the machine must change.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// An option has an invalid value.
    #[error("the option {option} of the plugin runtime has the invalid value {value}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// Its value.
        value: String,
    },
    /// Wasmtime rejected its settings, or the instance pool could not be reserved.
    #[error("the plugin runtime could not reserve {instances} instance slots: {source:#}")]
    Engine {
        /// The requested number of instance slots.
        instances: u32,
        /// Wasmtime's error.
        source: wasmtime::Error,
    },
    /// A thread could not be started.
    #[error("the threads of the plugin runtime could not be started")]
    Threads(#[source] std::io::Error),
    /// The directory of compiled plugins can't be used.
    #[error("the directory {path} can't be used for compiled plugins: {reason}")]
    Cache { path: PathBuf, reason: String },
}

/// A file could not be loaded as a plugin. No retry helps: the file must change, or the host.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is too large. Sizes are in bytes.
    #[error("the file has {size} bytes, more than the limit of {limit} bytes")]
    TooLarge { size: usize, limit: usize },
    /// The file is not WebAssembly.
    #[error("the file is not WebAssembly in its binary format")]
    NotWasm,
    /// The file is a core module.
    #[error(
        "the file is a core WebAssembly module, not a component; make a component of it with `flyball build` or \
         `wasm-tools component new`"
    )]
    CoreModule,
    /// The file has a component's header, but its content is malformed.
    #[error("the file is not a valid component: {0}")]
    Malformed(String),
    /// The component was compiled against a version of the world that this host does not run.
    #[error(
        "the component was compiled against version {compiled} of the world `{package}`, and this host provides \
         version {provided}: rebuild it with an SDK of version {}", minor(.provided)
    )]
    OtherWorld {
        /// For example `flyball:controller`.
        package: &'static str,
        /// For example `0.1.0`.
        compiled: String,
        /// For example `0.2.0`.
        provided: &'static str,
    },
    /// The component is for another world.
    #[error(
        "the component does not export `{expected}`, so it is not a Flyball controller: {found}"
    )]
    NoGuest {
        /// The export that a controller must have.
        expected: &'static str,
        /// The component's exports, as a clause of the message.
        found: String,
    },
    /// The component has imports that the host does not provide.
    #[error("the component has imports that this host does not provide: {}", .0.join(", "))]
    UnknownImports(
        /// The names of some of the imports, shortened.
        Vec<String>,
    ),
    /// The types of the component's imports or exports differ from the world's.
    #[error("the component does not fit the world `flyball:controller/controller@0.2.0`: {0}")]
    Mismatch(String),
    /// The child process found that this host can't run the component. The message is the text of another of these
    /// errors.
    #[error("{0}")]
    Unfit(String),
    /// The component needs more core instances, memories or tables than the engine's pool allows, or the compiler
    /// failed.
    #[error("the component can't be compiled: {0}")]
    Compile(String),
    /// The compiled code in the host's binary is corrupted, or was compiled for another engine or architecture.
    #[error(
        "the compiled code in the host's binary can't be used: {0}; install the binary again, or build it with \
         `cargo xtask build`"
    )]
    Embedded(String),
    /// The compiler exceeded one of its limits.
    #[error(
        "compiling the component takes more than {0}, several times what the guests of known toolchains take: build it with \
         optimizations, and make it smaller, for example with `wasm-opt -O`"
    )]
    CompileLimit(CompileLimit),
    /// The process that compiles could not be started, or its output could not be read.
    #[error("the process that compiles components failed")]
    Compiler(#[source] std::io::Error),
    /// The host is shutting down.
    #[error("the host is shutting down")]
    Shutdown,
}

/// A component did not describe itself. Each message is a sentence about `describe`.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// The component can't be loaded, or not run by this host.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The guest failed.
    #[error("{reason}")]
    Failed {
        reason: String,
        /// Whether it used up its CPU time, as it would again.
        is_slow: bool,
    },
    /// The child process took too long.
    #[error("describe was stopped: it took longer than its limit of {} s", .0.as_secs())]
    Time(Duration),
    /// The child process got no more memory. In bytes.
    #[error("describe ran out of memory: its process may have {} MiB", .0 >> 20)]
    Memory(usize),
    /// The compiled code is not for this host. It is compiled again at the next attempt.
    #[error("the compiled code can't be used: {0}")]
    Rejected(String),
    /// The child process ended without a result.
    #[error("the process that called describe ended with {0}")]
    Ended(String),
    /// The child process could not be started, or its output could not be read.
    #[error("the process that calls describe failed")]
    Process(#[source] std::io::Error),
}

/// A limit of [`CompileLimits`](crate::CompileLimits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileLimit {
    #[error("{} s of CPU time", .0.as_secs())]
    Cpu(Duration),
    #[error("{} s", .0.as_secs())]
    Wall(Duration),
    /// In bytes.
    #[error("{} MiB of memory", .0 >> 20)]
    Memory(usize),
    /// In bytes.
    #[error("{0} bytes of code")]
    Code(usize),
}

/// A call that failed. Its instance is dropped. Except after [`CallFailure::Removed`] and [`CallFailure::Shutdown`], a
/// retry may help, because the next call runs in another instance and may see another state of the cache.
#[derive(Debug, thiserror::Error)]
#[error("{call} {failure}")]
pub struct CallError {
    /// The call, for example ``reconcile of `default/web` (queue `replicaset`)``.
    pub call: String,
    /// Why it failed.
    pub failure: CallFailure,
    /// Its CPU time.
    pub cpu: Duration,
}

/// Why a call failed. The message continues [`CallError::call`].
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    /// The guest panicked, aborted or broke a rule of its sandbox.
    #[error("trapped: {message}{}{}", quote(.last_error), at(.place))]
    Trap {
        /// The reason, for example ``wasm `unreachable` instruction executed``.
        message: String,
        /// The last error that the guest logged in this call, or the end of its stderr. For a panic, the panic's
        /// message.
        last_error: Option<String>,
        /// Where in its code the guest was, as half a sentence, unless the last error says so.
        place: Option<String>,
        /// The guest's functions that have names, one per line, the innermost first.
        backtrace: Option<String>,
    },
    /// The guest computed for too long.
    #[error("was stopped: it used {used:?} of CPU time, and its limit is {limit:?}{}", at(.place))]
    CpuLimit {
        /// The CPU time of the call.
        used: Duration,
        limit: Duration,
        /// Where in its code the guest was, as half a sentence.
        place: Option<String>,
        /// The guest's functions that have names, one per line, the innermost first.
        backtrace: Option<String>,
    },
    /// The call took too long, most of it waiting.
    #[error(
        "was stopped: it took longer than its limit of {limit:?}, and used {used:?} of CPU time"
    )]
    WallLimit {
        /// The CPU time of the call.
        used: Duration,
        limit: Duration,
    },
    /// No instance slot became free in time.
    #[error("was not started: other plugins left no instance slot free for {waited:?}")]
    NoSlot { waited: Duration },
    /// The guest's memory was not allowed to grow, and the guest could not continue. Sizes are in bytes.
    #[error(
        "ran out of memory: it requested {wanted} bytes, and {} {limit}{}",
        match .owner {
            MemoryOwner::Instance => "its limit is",
            MemoryOwner::Plugin => "the limit of all instances of the plugin together (`total-memory` in the policy) is",
            MemoryOwner::AllPlugins => "the limit of all plugins together is",
            MemoryOwner::System => "the operating system gave no more than",
        },
        quote(.last_error)
    )]
    MemoryLimit {
        /// The memory that the instance would have had.
        wanted: usize,
        limit: usize,
        owner: MemoryOwner,
        /// See [`CallFailure::Trap`].
        last_error: Option<String>,
        /// The guest's functions that have names, one per line, the innermost first.
        backtrace: Option<String>,
    },
    /// The component could not be instantiated.
    #[error("could not instantiate the component: {0}")]
    Instantiate(String),
    /// The host's implementation of the imports panicked.
    #[error("failed because of a fault in the host: {0}")]
    Host(String),
    /// The plugin was removed.
    #[error("was stopped: the plugin was removed")]
    Removed,
    /// The host is shutting down.
    #[error("was not started: the host is shutting down")]
    Shutdown,
}

impl CallError {
    /// True if the guest caused the failure: it trapped, exceeded a limit of its plugin or could not be instantiated.
    /// False if a resource ran out that all plugins share, because other plugins may have used it up.
    pub fn is_of_guest(&self) -> bool {
        !matches!(
            self.failure,
            CallFailure::Host(_)
                | CallFailure::Removed
                | CallFailure::Shutdown
                | CallFailure::NoSlot { .. }
                | CallFailure::MemoryLimit {
                    owner: MemoryOwner::AllPlugins | MemoryOwner::System,
                    ..
                }
        )
    }

    /// True if a retry can help.
    pub fn can_retry(&self) -> bool {
        !matches!(self.failure, CallFailure::Removed | CallFailure::Shutdown)
    }

    /// The guest's functions at the point of failure that have names, one per line, the innermost first.
    pub fn backtrace(&self) -> Option<&str> {
        match &self.failure {
            CallFailure::Trap { backtrace, .. }
            | CallFailure::CpuLimit { backtrace, .. }
            | CallFailure::MemoryLimit { backtrace, .. } => backtrace.as_deref(),
            _ => None,
        }
    }
}

/// Strips the patch version.
fn minor(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

/// A clause with the place in the guest's code.
fn at(place: &Option<String>) -> String {
    place
        .as_ref()
        .map(|place| format!("; {place}"))
        .unwrap_or_default()
}

/// A clause with the guest's last error.
fn quote(last_error: &Option<String>) -> String {
    last_error
        .as_ref()
        .map(|error| format!("; the guest's last error: {error}"))
        .unwrap_or_default()
}
