//! Checks a component, and loads its code from the cache or compiles it. All functions block for milliseconds to
//! seconds, so the engine calls them on threads for blocking work.

use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::compiler::{Compiler, CompilerProcess};
use crate::component::{Code, Component};
use crate::engine::Precompiled;
use crate::error::LoadError;
use crate::format;
use crate::pages::page_out;
use crate::precompiled::{deserialize, map};
use crate::priority;

/// What loads components.
#[derive(Clone, Copy)]
pub(crate) struct Loader<'a> {
    pub(crate) engine: &'a wasmtime::Engine,
    pub(crate) cache: Option<&'a Cache>,
    pub(crate) compiler: &'a Compiler,
    /// Maximum size of a component, in bytes.
    pub(crate) limit: usize,
}

/// Checks a component, and loads it from the cache or compiles it.
pub(crate) fn load(loader: Loader<'_>, wasm: &[u8]) -> Result<Component, LoadError> {
    let Loader {
        engine,
        cache,
        compiler,
        limit,
    } = loader;
    format::check(wasm, limit)?;
    let digest = digest(wasm);
    if let Some(code) = cache.and_then(|cache| load_cached(engine, cache, &digest)) {
        return Ok(Component::new(code, &digest, wasm.len()));
    }
    let start = Instant::now();
    let code = match compiler {
        Compiler::InProcess => store(engine, cache, &digest, compile(engine, wasm)?),
        Compiler::Process(process) => compile_apart(process, engine, cache, &digest, wasm)?,
    };
    tracing::debug!(digest, bytes = wasm.len(), took = ?start.elapsed(), "compiled a component");
    Ok(Component::new(code, &digest, wasm.len()))
}

/// Compiles a component in a child process. Returns the code as mapped from the cache if there is one.
fn compile_apart(
    process: &CompilerProcess,
    engine: &wasmtime::Engine,
    cache: Option<&Cache>,
    digest: &str,
    wasm: &[u8],
) -> Result<Code, LoadError> {
    let compiled = process.compile(wasm)?;
    let cached = cache.and_then(|cache| {
        cache.put(digest, &compiled);
        load_cached(engine, cache, digest)
    });
    match cached {
        Some(code) => Ok(code),
        None => deserialize(engine, &compiled)
            .map(Code::from)
            .map_err(refused),
    }
}

/// Compiles a component on all cores, at a low priority, so that running plugins go first.
fn compile(
    engine: &wasmtime::Engine,
    wasm: &[u8],
) -> Result<wasmtime::component::Component, LoadError> {
    let compile = || wasmtime::component::Component::from_binary(engine, wasm).map_err(refused);
    // Wasmtime compiles on the threads of the rayon pool that it is called in.
    let threads = rayon::ThreadPoolBuilder::new().thread_name(|_| "flyball-compile".into());
    match threads.start_handler(|_| priority::lower()).build() {
        Ok(threads) => threads.install(compile),
        Err(error) => {
            tracing::warn!(
                "can't start threads of a low priority, so the component is compiled without them: {error}"
            );
            compile()
        }
    }
}

/// Stores compiled code in the cache, if there is one, and returns the code as mapped from there.
fn store(
    engine: &wasmtime::Engine,
    cache: Option<&Cache>,
    digest: &str,
    code: wasmtime::component::Component,
) -> Code {
    let Some(cache) = cache else {
        return code.into();
    };
    match code.serialize() {
        Ok(bytes) => cache.put(digest, &bytes),
        Err(error) => {
            tracing::warn!(
                digest,
                "can't serialize a compiled plugin for the cache: {error:#}"
            );
            return code.into();
        }
    }
    load_cached(engine, cache, digest).unwrap_or_else(|| code.into())
}

/// Loads a component whose compiled code is embedded in this binary, or compiles it if that code is for another engine
/// or machine. If there is a cache, the code is copied to the cache and mapped from there, like the code of any plugin,
/// so that only the parts that run take memory.
pub(crate) fn load_precompiled(
    loader: Loader<'_>,
    code: Precompiled,
) -> Result<Component, LoadError> {
    let Loader { engine, cache, .. } = loader;
    let Precompiled {
        digest,
        wasm,
        cwasm,
    } = code;
    let copy_to_cache = |cache: &Cache| {
        cache.put(digest, cwasm);
        page_out(cwasm);
        load_cached(engine, cache, digest)
    };
    if let Some(code) =
        cache.and_then(|cache| load_cached(engine, cache, digest).or_else(|| copy_to_cache(cache)))
    {
        return Ok(Component::new(code, digest, wasm.len()));
    }
    match deserialize(engine, cwasm) {
        Ok(code) => Ok(Component::new(code, digest, wasm.len())),
        Err(error) => {
            tracing::info!(
                "the embedded code of a component can't be used, so it is compiled again: {error:#}"
            );
            load(loader, wasm)
        }
    }
}

/// Compiles a component with an engine that only compiles.
pub(crate) fn precompile(
    engine: &wasmtime::Engine,
    wasm: &[u8],
    limit: usize,
) -> Result<Vec<u8>, LoadError> {
    format::check(wasm, limit)?;
    engine.precompile_component(wasm).map_err(refused)
}

/// Maps the code of a component from the cache. None if the cache does not have it or the engine rejects it.
fn load_cached(engine: &wasmtime::Engine, cache: &Cache, digest: &str) -> Option<Code> {
    let file = cache.get(digest)?;
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

fn refused(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(format!("{error:#}"))
}
