//! The plugin runtime: compiles, instantiates, limits and calls guest components. It knows no Kubernetes client: the
//! manager gives each call an [`Imports`], which implements what the guest imports.
//!
//! In the order of a plugin's life: [`Engine::load`] checks and compiles a file, [`Plugin::new`] links it to the world,
//! and each call takes an instance from the plugin's pool, runs it on the engine's own threads within the plugin's
//! [`Limits`], and puts it back or throws it away.

mod bindings;
mod cache;
mod compile;
mod component;
mod engine;
mod error;
mod format;
mod hits;
mod imports;
mod instance;
mod limits;
mod meter;
mod pages;
mod plugin;
mod pool;
mod precompiled;
mod priority;
mod request;
mod room;
mod settings;
mod share;
mod threads;
mod ticker;
mod world;

pub use compile::digest;
pub use component::Component;
pub use engine::{Engine, EngineOptions, Precompiled};
pub use error::{CallError, CallFailure, EngineError, LoadError};
pub use format::check;
pub use hits::{Hits, Limit};
pub use imports::{
    Batch, Cursor, Imports, LogLevel, MemoEntry, ObjectReference, Operation, Page, Read, Target,
    Write,
};
pub use limits::Limits;
pub use plugin::{Delta, Outcome, Plugin, RoutedKey, Stats};
