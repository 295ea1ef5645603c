//! From the bytes of a file to a component that can run: checked, taken from the cache or compiled. Everything here blocks,
//! for milliseconds to seconds, so the engine calls it on threads of its own.

use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::component::{Code, Component};
use crate::engine::Precompiled;
use crate::error::LoadError;
use crate::format;
use crate::pages::{Pages, page_out};
use crate::precompiled::{deserialize, map};
use crate::priority;

/// Checks a component and compiles it, or takes it from the cache.
pub(crate) fn load(
    engine: &wasmtime::Engine,
    cache: Option<&Cache>,
    wasm: &[u8],
    limit: usize,
) -> Result<Component, LoadError> {
    format::check(wasm, limit)?;
    let digest = digest(wasm);
    if let Some(code) = cache.and_then(|cache| kept(engine, cache, &digest)) {
        return Ok(Component::new(code, &digest, wasm.len()));
    }
    let start = Instant::now();
    let code = compile(engine, wasm)?;
    tracing::debug!(digest, bytes = wasm.len(), took = ?start.elapsed(), "compiled a component");
    let code = keep(engine, cache, &digest, code);
    Ok(Component::new(code, &digest, wasm.len()))
}

/// Compiles a component on all cores, at a low priority: plugins that run go first.
fn compile(
    engine: &wasmtime::Engine,
    wasm: &[u8],
) -> Result<wasmtime::component::Component, LoadError> {
    let compile = || wasmtime::component::Component::from_binary(engine, wasm).map_err(refused);
    // The engine compiles on the threads of the pool that it is called in.
    let threads = rayon::ThreadPoolBuilder::new().thread_name(|_| "flyball-compile".into());
    match threads.start_handler(|_| priority::lower()).build() {
        Ok(threads) => threads.install(compile),
        Err(error) => {
            tracing::warn!(
                "can't start threads to compile on, so that it is done at once: {error}"
            );
            compile()
        }
    }
}

/// Puts compiled code into the cache, if there is one, and maps it from there in place of what is in memory.
fn keep(
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
            tracing::warn!(digest, "a compiled plugin could not be kept: {error:#}");
            return code.into();
        }
    }
    kept(engine, cache, digest).unwrap_or_else(|| code.into())
}

/// Loads a component that was compiled into this binary, or compiles it if that code is for another engine or machine. Where
/// there is a cache, the code goes there first and is mapped from there, as that of any plugin: only what is run of it takes
/// memory then.
pub(crate) fn load_precompiled(
    engine: &wasmtime::Engine,
    cache: Option<&Cache>,
    code: Precompiled,
    limit: usize,
) -> Result<Component, LoadError> {
    let Precompiled {
        digest,
        wasm,
        cwasm,
    } = code;
    let put = |cache: &Cache| {
        cache.put(digest, cwasm);
        page_out(cwasm);
        kept(engine, cache, digest)
    };
    if let Some(code) = cache.and_then(|cache| kept(engine, cache, digest).or_else(|| put(cache))) {
        return Ok(Component::new(code, digest, wasm.len()));
    }
    match deserialize(engine, cwasm) {
        Ok(code) => Ok(Component::new(code, digest, wasm.len())),
        Err(error) => {
            tracing::info!("a built-in component is compiled anew: {error:#}");
            load(engine, cache, wasm, limit)
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

/// What the cache holds for a digest, if the engine takes it.
fn kept(engine: &wasmtime::Engine, cache: &Cache, digest: &str) -> Option<Code> {
    let file = cache.get(digest)?;
    match map(engine, &file) {
        Ok(code) => Some(Code {
            pages: Some(Pages::new(code.clone(), file.into_file())),
            code,
        }),
        Err(error) => {
            tracing::warn!(
                digest,
                "a compiled plugin does not fit the engine and is compiled anew: {error:#}"
            );
            cache.remove(digest);
            None
        }
    }
}

/// The SHA-256 of a component's bytes, in hex, as [`Component::digest`] has it.
pub fn digest(wasm: &[u8]) -> String {
    Sha256::digest(wasm)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn refused(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(format!("{error:#}"))
}
