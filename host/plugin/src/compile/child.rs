//! The process that compiles one component, or calls its `describe`: it limits itself, reads the component from stdin
//! and writes the compiled code to stdout. `describe/child.rs` has the other task.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::process::{COMMAND, COMPILE, NO_MEMORY, REFUSED, UNFIT};
use crate::describe::child as describe;
use crate::error::LoadError;
use crate::{format, priority, settings};

/// The exit code if the process can't do its work.
const FAILED: u8 = 12;
/// More threads would each need memory, and few components have that many large functions.
const MAX_THREADS: usize = 8;
/// Seconds after the limit of CPU time at which the kernel ends a process that has survived it.
const CPU_GRACE: u64 = 5;
/// The error of a system call that gets no memory.
const ENOMEM: &str = "os error 12";

/// Does the task of a child process and returns the exit code if the arguments of this process, starting with the program's name,
/// are the arguments of a [`CompilerProcess`](crate::CompilerProcess). Returns `None` otherwise.
///
/// Call it first in `main`: its limits apply to everything that the process does.
pub fn run_compiler(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    let (Some(memory), Some(cpu), Some(task)) = (number(), number(), arguments.next()) else {
        eprintln!("{COMMAND} is run by the host itself");
        return Some(FAILED.into());
    };
    // The engine keeps the initial contents of memories in files without a name.
    let files = match task.to_str() {
        Some(describe::TASK) => memory,
        _ => 0,
    };
    if let Err(error) = limit_process(memory, cpu, files) {
        eprintln!("can't limit this process: {error}");
        return Some(FAILED.into());
    }
    let done = match task.to_str() {
        Some(COMPILE) => compile(),
        Some(describe::TASK) => describe::describe().map_err(Failure::Io),
        _ => Err(Failure::Io(io::Error::other("it has no such task"))),
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            error.code().into()
        }
    })
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("can't read the component or write the result: {0}")]
    Io(io::Error),
    #[error("{0}")]
    Unfit(LoadError),
    #[error("{0:#}")]
    Compiler(wasmtime::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::OutOfMemory => NO_MEMORY,
            Self::Io(_) => FAILED,
            Self::Unfit(_) => UNFIT,
            Self::Compiler(error) if error.is::<wasmtime::OutOfMemory>() => NO_MEMORY,
            Self::Compiler(error) if format!("{error:#}").contains(ENOMEM) => NO_MEMORY,
            Self::Compiler(_) => REFUSED,
        }
    }
}

/// Limits this process: its memory and the size of a file that it writes in bytes, and its CPU time in seconds. It dumps
/// no core, yields to all others, and ends with its parent.
fn limit_process(memory: u64, cpu: u64, files: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // If the machine runs out of memory, this process is ended first.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    }
    priority::lower();
    // Not the address space, because each thread reserves much more of it than it uses.
    limit(Resource::Data, memory, memory)?;
    limit(Resource::Cpu, cpu, cpu.saturating_add(CPU_GRACE))?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, files, files)
}

fn limit(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit {
        current: Some(current.min(allowed)),
        maximum: Some(maximum.min(allowed)),
    };
    Ok(setrlimit(resource, limit)?)
}

fn compile() -> Result<(), Failure> {
    let mut wasm = Vec::new();
    io::stdin().read_to_end(&mut wasm).map_err(Failure::Io)?;
    format::check_names(&wasm).map_err(Failure::Unfit)?;
    let engine = wasmtime::Engine::new(&settings::compiling()).map_err(Failure::Compiler)?;
    let compile = || engine.precompile_component(&wasm);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Wasmtime compiles on the threads of the rayon pool that it is called in.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.min(MAX_THREADS));
    let code = match pool.build() {
        Ok(pool) => pool.install(compile),
        Err(_) => compile(),
    };
    let code = code.map_err(Failure::Compiler)?;
    let mut output = io::stdout();
    output
        .write_all(&code)
        .and_then(|()| output.flush())
        .map_err(Failure::Io)
}
