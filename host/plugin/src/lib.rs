//! The plugin runtime: compiles, instantiates, limits and calls guest components. It does not depend on a Kubernetes
//! client: the manager passes an [`Imports`] to each call, which implements what the guest imports.
//!
//! The steps of a plugin's life:
//! 1. [`Engine::load`] checks and compiles a component (`compile.rs`).
//! 2. [`Engine::describe`] calls its `describe` without any grant.
//! 3. [`Plugin::new`] links it to the world.
//! 4. Each call takes an instance from the plugin's pool, runs it within the plugin's [`Limits`], and returns it to the
//!    pool or drops it.

mod allowance;
mod backtrace;
mod bindings;
mod budget;
mod cloud;
mod code_cache;
mod compile;
mod component;
mod describe;
mod deserialize;
mod embedded;
mod engine;
mod error;
mod exports;
mod footprint;
mod format;
mod handles;
mod hits;
mod imports;
mod instance;
mod limits;
mod loader;
mod machine;
mod meter;
mod pages;
mod plugin;
mod pool;
mod priority;
mod quota;
mod request;
mod settings;
mod share;
mod slots;
mod tally;
mod threads;
mod ticker;
mod world;

pub use allowance::{Allowance, Each};
pub use budget::{Budget, Charge, Held};
pub use cloud::{CloudCall, CloudError};
pub use compile::{CompileLimits, Compiler, CompilerProcess, compile_for, run_compiler};
pub use component::Component;
pub use describe::{Describe, LogSink};
pub use embedded::{CompressedCode, EmbeddedCode, EmbeddedComponent, Part, SharedCode, compress};
pub use engine::{Engine, EngineOptions};
pub use error::{CallError, CallFailure, CompileLimit, DescribeError, EngineError, LoadError};
pub use format::{check, provided_world};
pub use hits::{Hits, Limit};
pub use imports::{
    Batch, CertificateTemplate, CheckAddresses, Cursor, HttpGrant, Imports, LogLevel, MemoEntry,
    Metered, ObjectReference, Operation, Page, Read, SubjectKey, Target, Write,
};
pub use limits::{Limits, MemoryOwner};
pub use loader::digest;
pub use plugin::Plugin;
pub use quota::Quota;
pub use request::{Delta, Outcome, RoutedKey};
pub use tally::Stats;
