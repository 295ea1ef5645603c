//! Compiles each component in a child process with its own limits, so that a component that makes the parser or the
//! compiler crash, or use too much memory or time, costs only the child.
//!
//! The child gets the component over stdin and returns the code over stdout. Code runs without further checks, so the
//! host uses only the output that a child wrote to this pipe before it ended successfully.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::pace;
use super::work::{ChildWork, Stop};
use crate::error::{CompileLimit, LoadError};
use crate::machine;

/// The argument after which the limits follow.
pub(super) const COMMAND: &str = "compile-component";
/// The argument for the task to compile a component.
pub(super) const COMPILE: &str = "compile";
/// The exit code for a component that the compiler refuses. Its message is the only text on stderr.
pub(super) const REFUSED: u8 = 10;
/// The exit code for a file that isn't a component for this host. Its message is the only text on stderr.
pub(super) const UNFIT: u8 = 13;
/// The exit code if there is not enough memory.
pub(super) const NO_MEMORY: u8 = 11;
/// Bytes of the child's messages that are read.
const MAX_MESSAGES: usize = 4096;
/// The beginning of the message that the standard library prints before it ends a process that has no memory left.
const ALLOCATION_FAILED: &str = "memory allocation of ";

/// The child process that compiles a component.
#[derive(Clone, Debug)]
pub struct CompilerProcess {
    /// A binary that calls [`run_compiler`] when it starts.
    pub program: PathBuf,
    /// Its arguments, to which the limits are added.
    pub arguments: Vec<OsString>,
    pub limits: CompileLimits,
}

/// The limits of compiling one component. Among the toolchains, Python's makes the largest guests: 18 MiB, for which
/// the compiler needs 10 s of CPU time and 400 MiB of memory, and returns 36 MiB of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// CPU time on all cores together, in whole seconds. Default: 5 min.
    pub cpu: Duration,
    /// Time until the child has ended. The child runs at a low priority, so it may have to wait for cores. Default: 15
    /// min.
    pub wall: Duration,
    /// Memory, in bytes: all that the child can write to, without what it has only reserved. Default: 1 GiB.
    pub memory: usize,
    /// Average CPU time of all children together, in thousandths of a core; none for no limit. A low priority alone does
    /// not keep them from using up the CPU quota of the host's control group, which then stops the host as well. Default:
    /// half of that quota; none without a quota.
    pub cpu_share: Option<u32>,
    /// Size of the compiled code, in bytes. The host holds all of it for a moment. Default: 128 MiB.
    pub code: usize,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(300),
            wall: Duration::from_secs(900),
            memory: 1 << 30,
            cpu_share: machine::cpu_quota().map(|quota| (quota / 2).max(1)),
            code: 128 << 20,
        }
    }
}

/// The result of a child process.
pub(crate) struct Ended {
    /// Its output, up to one byte more than the limit.
    pub(crate) output: io::Result<Vec<u8>>,
    /// The beginning of its messages.
    pub(crate) messages: String,
    /// False if it was stopped because it took too long.
    pub(crate) in_time: bool,
    pub(crate) status: ExitStatus,
}

impl Ended {
    /// Whether the process ended because it got no more memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.status.code() == Some(NO_MEMORY.into())
            || self.was_killed_by(Signal::ABORT) && self.messages.contains(ALLOCATION_FAILED)
    }

    fn was_killed_by(&self, signal: Signal) -> bool {
        self.status.signal() == Some(signal.as_raw())
    }
}

impl CompilerProcess {
    /// This process's own binary, which must call [`run_compiler`] when it starts, with the default limits.
    ///
    /// # Errors
    /// The path of the binary is unknown.
    pub fn of_this_binary() -> io::Result<Self> {
        // The link leads to the binary that runs, even if another one has taken its name since.
        let program = if cfg!(target_os = "linux") {
            "/proc/self/exe".into()
        } else {
            std::env::current_exe()?
        };
        Ok(Self {
            program,
            arguments: vec![COMMAND.into()],
            limits: CompileLimits::default(),
        })
    }

    /// Compiles a component for this machine. Blocks until the child has ended.
    pub(crate) fn compile(&self, wasm: &[u8], stop: &Stop) -> Result<Vec<u8>, LoadError> {
        let work = ChildWork {
            task: COMPILE,
            cpu: self.limits.cpu,
            wall: self.limits.wall,
            memory: self.limits.memory,
            output: self.limits.code,
            stop,
        };
        let ended = self.run(&work, |input| input.write_all(wasm));
        self.result(ended.map_err(LoadError::Compiler)?)
    }

    /// Runs a child process, and writes its input to it. Blocks until the child has ended.
    pub(crate) fn run(
        &self,
        work: &ChildWork<'_>,
        write: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
    ) -> io::Result<Ended> {
        let mut command = Command::new(&self.program);
        command
            .arg0("flyball-compiler")
            .args(&self.arguments)
            .arg(work.memory.to_string())
            .arg(work.cpu.as_secs().to_string())
            .arg(work.task)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[expect(
            clippy::disallowed_methods,
            reason = "the child ends with this process, and is waited for below"
        )]
        let mut child = command.spawn()?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (ending, ended) = mpsc::channel();
        let process = Pid::from_child(&child);
        let limit = work.output.saturating_add(1);
        let (output, messages, in_time) = thread::scope(|scope| {
            scope.spawn(move || {
                // A child that ends early does not read all of it.
                let _ = input.map(|mut input| write(&mut input));
            });
            let messages = scope.spawn(move || read_up_to(errors, MAX_MESSAGES));
            let output = scope.spawn(move || {
                let output = read_up_to(output, limit);
                if output.as_ref().is_ok_and(|output| output.len() < limit) {
                    // The child is not reaped until the end, so that no other process can get its id.
                    let until = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                    let _ = retry_on_intr(|| waitid(WaitId::Pid(process), until));
                }
                let _ = ending.send(());
                output
            });
            let in_time = pace::wait(process, self.limits.cpu_share, &ended, work);
            // A child that still runs has exceeded a limit, or nobody waits for it any more.
            let _ = child.kill();
            (output.join(), messages.join(), in_time)
        });
        let panicked = |_| Err(io::Error::other("the thread that reads it panicked"));
        let messages = messages.unwrap_or_else(panicked).unwrap_or_default();
        Ok(Ended {
            output: output.unwrap_or_else(panicked),
            messages: String::from_utf8_lossy(&messages).trim().to_owned(),
            in_time,
            status: child.wait()?,
        })
    }

    fn result(&self, ended: Ended) -> Result<Vec<u8>, LoadError> {
        let is_out_of_memory = ended.is_out_of_memory();
        let is_out_of_time = ended.was_killed_by(Signal::XCPU);
        let Ended {
            output,
            messages,
            in_time,
            status,
        } = ended;
        let limits = &self.limits;
        if !in_time {
            return Err(LoadError::CompileLimit(CompileLimit::Wall(limits.wall)));
        }
        let code = output.map_err(LoadError::Compiler)?;
        if code.len() > limits.code {
            return Err(LoadError::CompileLimit(CompileLimit::Code(limits.code)));
        }
        let code_is = |expected: u8| status.code() == Some(expected.into());
        if status.success() {
            return Ok(code);
        }
        Err(if code_is(UNFIT) {
            LoadError::Unfit(messages)
        } else if code_is(REFUSED) {
            LoadError::Compile(messages)
        } else if is_out_of_memory {
            LoadError::CompileLimit(CompileLimit::Memory(limits.memory))
        } else if is_out_of_time {
            LoadError::CompileLimit(CompileLimit::Cpu(limits.cpu))
        } else {
            LoadError::Compile(format!("the compiler ended with {status}: {messages}"))
        })
    }
}

/// Reads up to `limit` bytes, or fewer if the pipe ends.
fn read_up_to(pipe: Option<impl Read>, limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(limit as u64).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles with a shell script instead of the compiler.
    fn compile(
        script: &str,
        change: impl FnOnce(&mut CompileLimits),
    ) -> Result<Vec<u8>, LoadError> {
        let mut limits = CompileLimits::default();
        change(&mut limits);
        let compiler = CompilerProcess {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            limits,
        };
        compiler.compile(b"a component", &Stop::default())
    }

    #[test]
    fn the_component_is_passed_in_and_the_code_is_passed_back() {
        assert_eq!(compile("exec cat", |_| ()).unwrap(), b"a component");
    }

    #[test]
    fn the_child_has_no_environment() {
        let code = compile("exec env", |_| ()).unwrap();
        let variables = String::from_utf8(code).unwrap();
        // The shell sets some itself.
        let foreign = variables.lines().filter(|line| {
            !["PWD=", "SHLVL=", "OLDPWD=", "_="]
                .iter()
                .any(|own| line.starts_with(own))
        });
        assert_eq!(foreign.count(), 0, "{variables}");
    }

    #[test]
    fn a_limit_that_is_exceeded_is_named_with_what_to_do() {
        type Change = fn(&mut CompileLimits);
        let abort = "echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$";
        let cases: [(&str, Change, &str); 5] = [
            (
                "exec sleep 1000",
                |limits| limits.wall = Duration::ZERO,
                "0 s",
            ),
            (
                "exec cat /dev/zero",
                |limits| limits.code = 1000,
                "1000 bytes of code",
            ),
            (abort, |_| (), "1024 MiB of memory"),
            ("exit 11", |_| (), "1024 MiB of memory"),
            ("kill -XCPU $$", |_| (), "300 s of CPU time"),
        ];
        for (script, change, expected) in cases {
            let error = compile(script, change).unwrap_err();
            assert!(
                matches!(error, LoadError::CompileLimit(_)),
                "{script}: {error}"
            );
            let text = error.to_string();
            assert!(
                text.contains(expected) && text.contains("wasm-opt"),
                "{text}"
            );
        }
    }

    #[test]
    fn code_of_a_child_that_failed_is_not_used() {
        for (script, expected) in [
            ("cat; echo 'it is invalid' >&2; exit 10", "it is invalid"),
            ("cat; kill -SEGV $$", "signal: 11"),
            ("cat; exit 1", "exit status: 1"),
        ] {
            let error = compile(script, |_| ()).unwrap_err();
            assert!(matches!(error, LoadError::Compile(_)), "{script}: {error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn a_child_ends_when_nobody_waits_for_it() {
        let stop = Stop::default();
        let compiler = CompilerProcess {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), "exec sleep 1000".into()],
            limits: CompileLimits::default(),
        };
        drop(stop.on_drop());
        assert!(compiler.compile(b"", &stop).is_err());
    }

    #[test]
    fn a_compiler_that_does_not_start_is_an_error() {
        let compiler = CompilerProcess {
            program: "/no/such/file".into(),
            arguments: Vec::new(),
            limits: CompileLimits::default(),
        };
        let error = compiler.compile(b"", &Stop::default()).unwrap_err();
        assert!(matches!(error, LoadError::Compiler(_)), "{error}");
    }
}
