//! Children that don't outlive this process, even if it is killed by SIGKILL and no destructor
//! runs.
//!
//! The kernel kills them (`PR_SET_PDEATHSIG`). It does so when the *thread* that spawned them ends,
//! not the process, so all are spawned by one thread that runs as long as the process. This is what
//! ties the crate to Linux.

mod die_with_parent;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// How long a child may take to end after SIGTERM before it gets SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// How often it is checked whether a child has ended.
const POLL: Duration = Duration::from_millis(10);

/// Spawns `command` so that the child is killed when this process ends, in whatever way.
///
/// Dropping the [`Child`] doesn't kill it: use [`Process`] for that.
pub fn spawn(command: Command) -> io::Result<Child> {
    let failed = || io::Error::other("the thread that spawns children could not be started");
    let (reply, answer) = mpsc::sync_channel(1);
    SPAWNER.send(Job { command, reply }).map_err(|_| failed())?;
    answer.recv().map_err(|_| failed())?
}

/// A child with a name and a log file. It is killed and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`. Its output is appended to the file `log`; its standard input is empty.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let out = open_log(log)
            .with_context(|| format!("can't open {} for what {name} prints", log.display()))?;
        let err = out
            .try_clone()
            .with_context(|| format!("can't share {} with {name}", log.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
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

    /// Its process ID, which no other process gets before its end was seen.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file of its output.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The last lines of its output, for messages about it.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// How it ended; `None` while it runs.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        // An error could only mean that there is no such child, and nobody else waits for it.
        self.child.try_wait().ok().flatten()
    }

    /// Sends SIGTERM and waits. After ten seconds it kills the process. A paused process is
    /// resumed.
    pub async fn stop(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(POLL).await;
        }
        self.kill()
    }

    /// Sends SIGKILL and waits. Does nothing to a process that has ended.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Sends SIGSTOP: connections stay open, and nothing responds.
    pub fn pause(&mut self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Sends SIGCONT to a paused process.
    pub fn resume(&mut self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Does nothing to a process that has ended: its ID may be another's by now.
    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // This fails only if there is no such child any more.
        let _ = self.kill();
    }
}

/// How a process ended, in words.
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

/// Never dropped, so the thread at its other end runs as long as the process does.
static SPAWNER: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
    let (jobs, queue) = mpsc::channel::<Job>();
    let run = move || {
        for mut job in queue {
            die_with_parent::die_with_parent(&mut job.command);
            #[allow(
                clippy::disallowed_methods,
                reason = "this is the one place that others are to use"
            )]
            let child = job.command.spawn();
            // Every requester waits for the reply.
            let _ = job.reply.send(child);
        }
    };
    // If the machine has no thread left, the queue is dropped with the closure, and each `spawn`
    // says so.
    let _ = thread::Builder::new().name("spawner".to_owned()).spawn(run);
    jobs
});
