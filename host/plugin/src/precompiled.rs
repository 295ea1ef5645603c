//! Makes compiled code runnable, an unsafe step: the engine trusts the code that it is given as it trusts
//! itself, so it must come from this program. Two sources do: the cache, whose files only this process's user can write
//! and which are digested, and what the build compiled into this binary.
#![allow(
    unsafe_code,
    reason = "compiled code can't be checked, only its origin can"
)]

use wasmtime::component::Component;

use crate::cache::Kept;

/// Loads what [`wasmtime::Engine::precompile_component`] or [`Component::serialize`] created in this program. Fails if it was
/// created with other settings, by another version or for another machine.
///
/// Called only by `compile.rs`, with bytes that are part of this binary.
pub(crate) fn deserialize(
    engine: &wasmtime::Engine,
    trusted: &[u8],
) -> wasmtime::Result<Component> {
    // SAFETY: the bytes are the output of this engine's compiler, see above; that they are for this version, these settings
    // and this machine is checked by wasmtime.
    unsafe { Component::deserialize(engine, trusted) }
}

/// Maps what the cache holds, as [`deserialize`] loads it. Its pages are read when they are first run.
///
/// Called only by `compile.rs`, with a file that the cache has checked.
pub(crate) fn map(engine: &wasmtime::Engine, trusted: &Kept) -> wasmtime::Result<Component> {
    // SAFETY: as above; nobody but this process's user can change the file, and the cache never does once it is written.
    unsafe { Component::deserialize_file(engine, trusted.path()) }
}
