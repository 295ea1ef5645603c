//! Projects of controllers in each language: creates them from templates, and builds them into components with the
//! language's ordinary tools. Keeps the types of custom resources and their definitions equal (`definitions`).
//!
//! No engine is needed. The binary calls this for `flyball new`, `flyball build` and `flyball dev`, and xtask for the
//! guests of this repository. [`Language`] is the entry to the code that differs between languages; each has a module
//! in `languages/`.

mod build;
pub mod componentize;
mod definitions;
mod embedded;
mod ignored;
mod import;
mod languages;
mod names;
mod new;
mod parts;
mod placeholder;
mod project;
mod resource;
mod resource_types;
mod sources;
pub mod tools;

pub use definitions::Generated;
pub use import::{Import, Imported};
pub use languages::{COMPONENTIZE_PY, RUST_TOOLCHAIN, write_go_bindings};
pub use new::New;
pub use project::{Language, Project};
pub use sources::SourceFiles;
