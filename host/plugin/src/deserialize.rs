//! Loads compiled code. This is unsafe because the engine trusts the code like its own, so the code must come from this
//! program. It has four sources: the cache, whose files only this process's user can write and whose digests are
//! checked; the code that the build embedded into this binary; the pipe from a child process that compiles; and, in a child
//! process, the pipe from the host.
#![allow(
    unsafe_code,
    reason = "compiled code can't be verified, only its origin can"
)]

use wasmtime::component::Component;

use crate::code_cache::CachedFile;

/// Loads the result of [`wasmtime::Engine::precompile_component`] or [`Component::serialize`]. Fails if it was created
/// with other settings, by another version of wasmtime or for another machine.
///
/// Only `loader.rs`, `component.rs` and `describe/child.rs` call this, with bytes from these sources.
pub(crate) fn deserialize(
    engine: &wasmtime::Engine,
    trusted: &[u8],
) -> wasmtime::Result<Component> {
    // SAFETY: The bytes are the output of this version's compiler (see above). Wasmtime checks that they are for this
    // version, these settings and this machine.
    unsafe { Component::deserialize(engine, trusted) }
}

/// Like [`deserialize`], but maps a file. Its pages are read when they first run.
///
/// Only `loader.rs` and `component.rs` call this, with a file that the cache has checked or written.
pub(crate) fn map(engine: &wasmtime::Engine, trusted: &CachedFile) -> wasmtime::Result<Component> {
    // SAFETY: As above. Only this process's user can modify the file, and the cache never does so once it is written.
    unsafe { Component::deserialize_file(engine, trusted.path()) }
}
