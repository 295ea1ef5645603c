//! Controllers and what reconcilers need, as kube's module `runtime` has them.

pub mod controller;
pub mod events;
pub mod finalizer;
pub mod reflector;
pub mod watcher;

pub use controller::{Config, Controller};
pub use finalizer::finalizer;
