//! The child processes of `flyball dev`, `flyball test` and `flyball plan`: builds and the host. Each leads a process group, so that
//! Ctrl-C in a terminal reaches this process alone, which then ends them in order, with the tools that a build runs.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use flyball_devcluster::process;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use crate::tools::observed::Observed;

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

/// The files of a host that runs one plugin for its author.
pub(super) struct HostFiles<'a> {
    pub(super) kubeconfig: &'a Path,
    /// The plugin's policy. Without one, all that the plugin asks for is granted.
    pub(super) policy: Option<&'a Path>,
    /// A folder for this host, which has the folder of the plugin.
    pub(super) folder: &'a Path,
    pub(super) admin_socket: PathBuf,
    /// The built-in controllers; none if it is empty.
    pub(super) controllers: String,
}

/// The folder of the plugin in the folder of its host.
pub(super) fn plugins(folder: &Path) -> PathBuf {
    folder.join("plugins")
}

pub(super) fn admin_socket(folder: &Path) -> PathBuf {
    folder.join("admin.sock")
}

/// A kubeconfig for a server of this process, with the credentials of a user.
pub(super) fn kubeconfig(url: &str, user: &Value) -> String {
    const NAME: &str = "server";
    let named = |kind: &str, value: &Value| json!([{"name": NAME, kind: value}]);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": named("cluster", &json!({"server": url})),
        "contexts": named("context", &json!({"cluster": NAME, "user": NAME})),
        "users": named("user", user),
    })
    .to_string()
}

impl HostFiles<'_> {
    /// The command of the host: no lease, no ports, and a log in JSON.
    pub(super) fn command(&self) -> anyhow::Result<Command> {
        let mut command = this_binary()?;
        let path = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        command
            .args([
                "run",
                "--leader-elect=false",
                "--secure-port=0",
                "--logging-format=json",
            ])
            .arg(path("kubeconfig", self.kubeconfig))
            .arg(path("plugin-dir", &plugins(self.folder)))
            .arg(format!("--controllers={}", self.controllers))
            .arg(path("admin-socket", &self.admin_socket))
            .arg(path("state-dir", &self.folder.join("state")));
        match self.policy {
            Some(policy) => command.arg(path("policy", policy)),
            None => command.arg("--trust-plugins"),
        };
        Ok(command)
    }
}

/// A command of this program.
pub(super) fn this_binary() -> anyhow::Result<Command> {
    let path = std::env::current_exe().context("can't find this program's file")?;
    Ok(Command::new(path))
}

/// The host. Each line of its log is passed on.
pub(super) struct Host {
    group: Group,
    log: JoinHandle<()>,
}

impl Host {
    pub(super) fn start(
        mut command: Command,
        mut on_line: impl FnMut(&str) + Send + 'static,
    ) -> anyhow::Result<Self> {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut group = Group::start(command)?;
        let log = group.0.stderr.take().expect("it is piped");
        // Ends with the host, which has the other end.
        let log = std::thread::spawn(move || {
            for line in BufReader::new(log).split(b'\n') {
                let Ok(line) = line else { return };
                on_line(&String::from_utf8_lossy(&line));
            }
        });
        Ok(Self { group, log })
    }

    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.group.ended().await
    }

    /// Waits for this time. Fails if the host ends meanwhile, with the problems that it has logged.
    pub(super) async fn runs_for(
        &mut self,
        time: Duration,
        observed: &Mutex<Observed>,
    ) -> anyhow::Result<()> {
        let Ok(ended) = tokio::time::timeout(time, self.ended()).await else {
            return Ok(());
        };
        let status = ended.context("can't wait for the host")?;
        let problems = observed.lock().host_lines();
        bail!("the host has ended ({status}): {problems}")
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
