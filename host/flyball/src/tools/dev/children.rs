//! The child processes: builds and the host. Each leads a process group, so that Ctrl-C in a terminal reaches this
//! process alone, which then ends them in order, with the tools that a build runs.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use flyball_devcluster::process;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::console::Console;

/// How long the host may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// A process group. Dropping it kills the group.
struct Group(Child);

impl Group {
    fn start(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).process_group(0);
        let child = process::spawn(command).context("can't start a process of this program")?;
        Ok(Self(child))
    }

    async fn ended(&mut self) -> io::Result<ExitStatus> {
        process::ended(&mut self.0).await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Both fail if nothing of the group is left.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// A build, with its output shown.
pub(super) struct Build(Group);

impl Build {
    pub(super) fn start(command: Command) -> anyhow::Result<Self> {
        Group::start(command).map(Self)
    }

    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.0.ended().await
    }
}

/// The host, with its log shown on the console.
pub(super) struct Host {
    group: Group,
    log: JoinHandle<()>,
}

impl Host {
    pub(super) fn start(
        mut command: Command,
        console: Arc<Mutex<Console>>,
    ) -> anyhow::Result<Self> {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut group = Group::start(command)?;
        let log = group.0.stderr.take().expect("it is piped");
        // Ends with the host, which has the other end.
        let log = std::thread::spawn(move || {
            for line in BufReader::new(log).split(b'\n') {
                let Ok(line) = line else { return };
                console.lock().show(&String::from_utf8_lossy(&line));
            }
        });
        Ok(Self { group, log })
    }

    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.group.ended().await
    }

    /// Lets the host finish its work. Kills it if that takes too long.
    pub(super) async fn stop(mut self) {
        // Fails if it has ended.
        let _ = kill_process(Pid::from_child(&self.group.0), Signal::TERM);
        let _ = tokio::time::timeout(GRACE, self.group.ended()).await;
        drop(self.group);
        let _ = self.log.join();
    }
}
