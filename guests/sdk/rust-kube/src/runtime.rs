//! Controllers and the functions that reconcilers need, as in kube's module `runtime`.

pub mod controller;
pub mod events;
pub mod finalizer;
pub mod reflector;
pub mod watcher;

pub use controller::{Config, Controller};
pub use finalizer::finalizer;
