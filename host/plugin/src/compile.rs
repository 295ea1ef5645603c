//! Compiles components: turns a `.wasm` file into machine code for one version of the engine, its settings and one
//! architecture. The crate uses one word for each thing:
//!
//! | word | meaning |
//! |---|---|
//! | component | the bytes of a `.wasm` file |
//! | compile | to turn a component into code |
//! | code | a component's machine code, in files `.cwasm` |
//! | compiler | what compiles: this process, or a child process for each component |
//! | code cache | the directory that keeps code across restarts (`code_cache.rs`) |
//! | embedded | of code: part of the host's binary, compiled and compressed by the host's build (`embedded.rs`) |
//! | load | to get code into the engine, so that it can be instantiated (`loader.rs`, `deserialize.rs`) |
//!
//! For example, a user drops a component with the digest `4f1d` into the plugin directory:
//! 1. [`Engine::load`](crate::Engine::load) looks for `4f1d` in the code cache, without success.
//! 2. [`CompilerProcess`] starts a child and writes the component to its stdin. The child (`child.rs`) limits itself,
//!    checks the component, compiles it and writes the code to stdout.
//! 3. The code cache stores the code as `4f1d-SETTINGS.cwasm`, and the engine maps that file.
//!
//! After a restart, step 1 finds the file, and nothing is compiled.
//!
//! A built-in controller is compiled when the host is built: the program `embed` calls [`compile_for`] and
//! [`compress`](crate::compress), and the binary embeds the result.
//! [`Engine::load_embedded`](crate::Engine::load_embedded) then begins as step 1 does. Without a file in the code
//! cache, it decompresses the embedded code and goes on with step 3.

mod child;
mod pace;
mod process;
mod work;

use crate::error::LoadError;
use crate::{format, priority, settings};
pub use child::run_compiler;
pub(crate) use process::Ended;
pub use process::{CompileLimits, CompilerProcess};
pub(crate) use work::{ChildWork, Stop};

/// Where components are checked and compiled.
#[derive(Clone, Debug, Default)]
pub enum Compiler {
    /// In this process. The compiler's memory and time are not limited, so a component must not be malicious.
    #[default]
    InProcess,
    /// In a child process for each component.
    Process(CompilerProcess),
}

/// Compiles a component in this process, on all cores, at a low priority, so that running plugins go first.
pub(crate) fn in_process(
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

/// Compiles a component for any machine of an architecture that runs this operating system, and returns the code. The
/// architecture is one that Rust knows, such as `x86_64`. Another one than this machine's needs the feature
/// `other-architectures`. Meant for the host's build: it blocks and needs no [`Engine`](crate::Engine).
///
/// # Errors
/// The component isn't one that this host can run, or the compiler fails.
pub fn compile_for(architecture: &str, wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
    format::check(wasm, format::MAX_BYTES)?;
    settings::portable(architecture)
        .and_then(|settings| wasmtime::Engine::new(&settings))
        .and_then(|engine| engine.precompile_component(wasm))
        .map_err(refused)
}

pub(crate) fn refused(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(format!("{error:#}"))
}
