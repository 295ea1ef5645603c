//! The plugin runtime: compiles, instantiates, limits and calls guest components. It knows no Kubernetes client: what a
//! guest imports is answered by an [`Imports`] that the manager gives to each call.

mod imports;

pub use imports::{Batch, Imports, Listing, LogLevel, MemoEntry, ObjectReference, Operation, Query, Target, Write};
