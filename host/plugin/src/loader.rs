//! Loads components: takes their code from the code cache, from the host's binary, or from the compiler. See
//! `compile.rs` for the words. All functions block for milliseconds to seconds, so the engine calls them on threads for
//! blocking work.

use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::code_cache::{CachedFile, CodeCache};
use crate::compile::{self, Compiler, Stop};
use crate::component::{Code, Component, Stored};
use crate::deserialize::{deserialize, map};
use crate::embedded::EmbeddedComponent;
use crate::error::LoadError;
use crate::{footprint, format};

/// Loads components.
#[derive(Clone, Copy)]
pub(crate) struct Loader<'a> {
    pub(crate) engine: &'a wasmtime::Engine,
    pub(crate) cache: Option<&'a CodeCache>,
    pub(crate) compiler: &'a Compiler,
    /// Maximum size of a component, in bytes.
    pub(crate) limit: usize,
}

/// Checks a component, and takes its code from the code cache or compiles it.
///
/// Code that a child process compiled is not loaded into the engine yet.
pub(crate) fn load(loader: Loader<'_>, wasm: &[u8], stop: &Stop) -> Result<Component, LoadError> {
    let Loader {
        engine,
        cache,
        compiler,
        limit,
    } = loader;
    format::check_header(wasm, limit)?;
    let digest = digest(wasm);
    let cached = cache.and_then(|cache| match compiler {
        Compiler::InProcess => load_cached(engine, cache, &digest),
        Compiler::Process(_) => Some(Code::stored_as(
            engine,
            Stored::File(cache.get(&digest)?.into()),
        )),
    });
    if let Some(code) = cached {
        // It was checked before it was compiled, perhaps by a host that provides another version of the world.
        format::check_names(wasm)?;
        return with_footprint(Component::new(code, &digest, wasm.len()), wasm);
    }
    let start = Instant::now();
    let code = match compiler {
        Compiler::InProcess => {
            format::check_names(wasm)?;
            serialize(engine, cache, &digest, compile::in_process(engine, wasm)?)
        }
        // The process checks the names, too.
        Compiler::Process(process) => {
            let code = process.compile(wasm, stop)?;
            let file = cache.and_then(|cache| cache.put(&digest, &code));
            let stored = match file {
                Some(file) => Stored::File(file.into()),
                None => Stored::Bytes(code.into()),
            };
            Code::stored_as(engine, stored)
        }
    };
    tracing::debug!(digest, bytes = wasm.len(), took = ?start.elapsed(), "compiled a component");
    with_footprint(Component::new(code, &digest, wasm.len()), wasm)
}

/// Adds what an instance takes besides its memories. Only to be called for a component that was compiled: no other one
/// is known to be valid.
fn with_footprint(component: Component, wasm: &[u8]) -> Result<Component, LoadError> {
    match footprint::of(wasm) {
        Ok(footprint) => Ok(component.with_footprint(footprint)),
        Err(error) => Err(LoadError::Malformed(error.to_string())),
    }
}

/// Stores the code of a component in the cache, if there is one, and returns the code as mapped from there.
fn serialize(
    engine: &wasmtime::Engine,
    cache: Option<&CodeCache>,
    digest: &str,
    code: wasmtime::component::Component,
) -> Code {
    let Some(cache) = cache else {
        return code.into();
    };
    match code.serialize() {
        Ok(bytes) => store(engine, cache, digest, &bytes).unwrap_or_else(|| code.into()),
        Err(error) => {
            tracing::warn!(
                digest,
                "can't serialize a compiled plugin for the cache: {error:#}"
            );
            code.into()
        }
    }
}

/// Loads a component whose code is embedded in this binary. If there is a code cache, the code is decompressed into it
/// once and mapped from there, like the code of any plugin, so that only the parts that run take memory.
pub(crate) fn load_embedded(
    loader: Loader<'_>,
    component: &EmbeddedComponent,
) -> Result<Component, LoadError> {
    let Loader { engine, cache, .. } = loader;
    let EmbeddedComponent { digest, size, code } = component;
    let component = |code| Component::new(code, digest, *size);
    if let Some(code) = cache.and_then(|cache| load_cached(engine, cache, digest)) {
        return Ok(component(code));
    }
    let code = code.decompress();
    let code = code.map_err(|error| LoadError::Embedded(error.to_string()))?;
    match cache.and_then(|cache| store(engine, cache, digest, &code)) {
        Some(code) => Ok(component(code)),
        None => deserialize(engine, &code)
            .map(|code| component(code.into()))
            .map_err(|error| LoadError::Embedded(format!("{error:#}"))),
    }
}

/// Maps the code of a component from the cache. None if the cache does not have it or the engine rejects it.
fn load_cached(engine: &wasmtime::Engine, cache: &CodeCache, digest: &str) -> Option<Code> {
    mapped(engine, cache, digest, cache.get(digest)?)
}

/// Stores compiled code in the cache, and maps it from there. None if it can't be stored or the engine rejects it.
fn store(engine: &wasmtime::Engine, cache: &CodeCache, digest: &str, code: &[u8]) -> Option<Code> {
    mapped(engine, cache, digest, cache.put(digest, code)?)
}

fn mapped(
    engine: &wasmtime::Engine,
    cache: &CodeCache,
    digest: &str,
    file: CachedFile,
) -> Option<Code> {
    match map(engine, &file) {
        Ok(code) => Some(Code::mapped(code, file)),
        Err(error) => {
            tracing::warn!(
                digest,
                "the engine rejects a compiled plugin from the cache, so it is compiled again: {error:#}"
            );
            cache.remove(digest);
            None
        }
    }
}

/// The SHA-256 of a component's bytes, in hex, equal to [`Component::digest`].
pub fn digest(wasm: &[u8]) -> String {
    Sha256::digest(wasm)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
