//! Child processes that don't outlive this process, even if SIGKILL ends it and no destructor runs.
//!
//! The kernel kills the children (`PR_SET_PDEATHSIG`) when the *thread* that spawned them ends, not the process. So one
//! thread, which runs as long as the process, spawns all children. This is available on Linux only.

mod die_with_parent;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::signal::unix::{SignalKind, signal};

/// How long a child may take to end after SIGTERM before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// Spawns `command` so that the child is killed when this process ends in any way.
///
/// Dropping the [`Child`] doesn't kill it: use [`Process`] for that.
pub fn spawn(command: Command) -> io::Result<Child> {
    let failed = || io::Error::other("the thread that spawns children could not be started");
    let (reply, result) = mpsc::sync_channel(1);
    SPAWNER.send(Job { command, reply }).map_err(|_| failed())?;
    result.recv().map_err(|_| failed())?
}

/// Waits until the child ends. To be called in a tokio runtime, which receives the signal of that.
pub async fn ended(child: &mut Child) -> io::Result<ExitStatus> {
    let mut changes = signal(SignalKind::child())?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        changes.recv().await;
    }
}

/// A child with a name and a log file. Dropping it kills the child and waits for its end.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` in a process group of its own, so that Ctrl-C in a terminal leaves it to this process. Its
    /// output is appended to the file `log`; its standard input is empty.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let out = open_log(log)
            .with_context(|| format!("can't open {} for the output of {name}", log.display()))?;
        let err = out
            .try_clone()
            .with_context(|| format!("can't duplicate the handle of {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        command.process_group(0);
        let program = command.get_program().to_owned();
        let child = spawn(command)
            .with_context(|| format!("can't start {name} from {}", program.display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process ID. The kernel does not reuse it before this process has waited for the child.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file of its output.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The last lines of its output, for error messages.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Its exit status; `None` while it runs.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        // Only this struct waits for the child, so an error is not possible.
        self.child.try_wait().ok().flatten()
    }

    /// Sends SIGTERM, resumes the process if it is paused, and waits. Kills it after ten seconds.
    pub async fn stop(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        match tokio::time::timeout(GRACE, ended(&mut self.child)).await {
            Ok(ended) => ended,
            Err(_) => self.kill(),
        }
    }

    /// Sends SIGKILL and waits. Does nothing to a process that has ended.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Sends SIGSTOP and waits until all threads are stopped: connections stay open, and nothing responds.
    pub fn pause(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        // The other threads run on until one of them takes the signal.
        let changes = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), changes)?;
        Ok(())
    }

    /// Sends SIGCONT to a paused process.
    pub fn resume(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Does nothing to a process that has ended, since its ID may have been reused.
    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // This fails only if the child no longer exists.
        let _ = self.kill();
    }
}

/// A description of how a process ended.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with code {code}"),
        (None, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, None) => format!("it ended ({status})"),
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

struct Job {
    command: Command,
    reply: mpsc::SyncSender<io::Result<Child>>,
}

/// The sender is never dropped, so the receiving thread runs as long as the process.
static SPAWNER: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
    let (jobs, queue) = mpsc::channel::<Job>();
    let run = move || {
        for mut job in queue {
            die_with_parent::die_with_parent(&mut job.command);
            #[allow(
                clippy::disallowed_methods,
                reason = "this is the function that other code must use"
            )]
            let child = job.command.spawn();
            // Every requester waits for the reply.
            let _ = job.reply.send(child);
        }
    };
    // If the thread can't be started, the queue is dropped with the closure, and each `spawn` fails.
    let _ = thread::Builder::new().name("spawner".to_owned()).spawn(run);
    jobs
});
