//! Makes compiled code runnable, the one unsafe step of this crate: the engine trusts the code that it is given as it trusts
//! itself, so it must come from this program. Two sources do: the cache, whose files only this process's user can write
//! and which are digested, and what the build compiled into this binary.
#![allow(unsafe_code, reason = "compiled code can't be checked, only its origin can")]

use wasmtime::component::Component;

/// Loads what [`wasmtime::Engine::precompile_component`] or [`Component::serialize`] made in this program. Fails if it was
/// made with other settings, by another version or for another machine.
///
/// Called only by `compile.rs`, with bytes from the two sources named above.
pub(crate) fn deserialize(engine: &wasmtime::Engine, trusted: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes are the output of this engine's compiler, see above; that they are for this version, these settings
    // and this machine is checked by wasmtime.
    unsafe { Component::deserialize(engine, trusted) }
}
