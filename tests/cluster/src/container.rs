//! Runs a container of a pod without a container engine: crun gets the command, the arguments, the environment, the
//! user, the capabilities and the mounts from the manifest. The container uses the network of this machine, and has no
//! cgroups.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};
use flyball_controlplane::Process;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};

use crate::{host, until};

/// The path at which the kubelet mounts the credentials of a pod's service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The folders of this machine that replace folders of an image: the C library, and the authorities of registries.
const SYSTEM: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/etc/ssl/certs"];
/// Starts crun in namespaces that end with it. crun reads the version of the cgroups, which may be a mixture here.
const START: &str = "mount -t cgroup2 none /sys/fs/cgroup && mount -t proc proc /proc && exec crun \
     --cgroup-manager=disabled --root=\"$0\"/state run --bundle=\"$0\" container";

/// A pod that runs the host's binary, with the files that the cluster and the kubelet would provide.
pub struct Pod<'a> {
    pub spec: &'a PodSpec,
    /// The folders of the volumes, by name. Folders of `emptyDir` volumes are created.
    pub volumes: BTreeMap<&'a str, PathBuf>,
    /// The folder with the credentials of its service account.
    pub account: Option<PathBuf>,
    /// The port of the API server.
    pub apiserver_port: u16,
}

/// A running container. Dropping it kills its processes.
pub struct Running(Process);

/// Returns the reason if containers can't run on this machine.
pub fn unable() -> Option<&'static str> {
    let has_crun = || {
        let version = Command::new("crun").arg("--version").output();
        version.is_ok_and(|version| version.status.success())
    };
    match (geteuid().is_root(), has_crun()) {
        (false, _) => Some("only root can run containers"),
        (true, false) => Some("crun is missing: on Debian, `sudo apt-get install crun`"),
        (true, true) => None,
    }
}

/// The command that runs the bundle in a folder: a `config.json` and the folder that it names as the root.
pub fn bundle_command(bundle: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command.args(["sh", "-c", START]).arg(bundle);
    command
}

impl Pod<'_> {
    /// Starts the only container. Its files are in a new folder `name` of `folder`.
    pub fn start(&self, folder: &Path, name: &str) -> Result<Running> {
        let bundle = folder.join(name);
        let root = bundle.join("root");
        fs::create_dir_all(&root).with_context(|| format!("can't create {}", root.display()))?;
        fs::set_permissions(&root, Permissions::from_mode(0o755))?;
        let config = self.config(&bundle)?;
        fs::write(bundle.join("config.json"), config.to_string())?;
        let log = bundle.join("log");
        Process::spawn(name, bundle_command(&bundle), &log).map(Running)
    }

    fn container(&self) -> Result<&Container> {
        let containers = &self.spec.containers;
        ensure!(containers.len() == 1, "the pod has several containers");
        Ok(&containers[0])
    }

    /// The configuration of the OCI runtime.
    fn config(&self, bundle: &Path) -> Result<Value> {
        let container = self.container()?;
        let pod = self.spec.security_context.clone().unwrap_or_default();
        let own = container.security_context.clone().unwrap_or_default();
        let drops_all = own.capabilities.and_then(|capabilities| capabilities.drop);
        ensure!(
            drops_all == Some(vec!["ALL".to_owned()]),
            "the container keeps capabilities"
        );
        ensure!(pod.run_as_non_root == Some(true), "the pod may run as root");
        let arguments = [&container.command, &container.args];
        let arguments: Vec<&String> = arguments.into_iter().flatten().flatten().collect();
        Ok(json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {
                    "uid": pod.run_as_user.context("the pod names no user")?,
                    "gid": pod.run_as_group.context("the pod names no group")?,
                    "additionalGids": pod.fs_group.into_iter().collect::<Vec<_>>(),
                },
                "args": arguments,
                "env": self.environment(container),
                "cwd": "/",
                "capabilities": {},
                "noNewPrivileges": own.allow_privilege_escalation == Some(false),
            },
            "root": {"path": "root", "readonly": own.read_only_root_filesystem},
            "hostname": "flyball-0",
            "mounts": self.mounts(container, bundle)?,
            "linux": {"namespaces": [{"type": "mount"}, {"type": "ipc"}, {"type": "uts"}]},
        }))
    }

    fn environment(&self, container: &Container) -> Vec<String> {
        let own = container.env.iter().flatten();
        let own = own.map(|variable| {
            let value = variable.value.as_deref().unwrap_or_default();
            format!("{}={value}", variable.name)
        });
        let of_cluster = [
            "KUBERNETES_SERVICE_HOST=127.0.0.1".to_owned(),
            format!("KUBERNETES_SERVICE_PORT={}", self.apiserver_port),
        ];
        own.chain(of_cluster).collect()
    }

    fn mounts(&self, container: &Container, bundle: &Path) -> Result<Vec<Value>> {
        let bind = |from: &Path, to: &str, access: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", access]});
        let system = SYSTEM.map(Path::new).into_iter();
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
            bind(&host()?.canonicalize()?, "/flyball", "ro"),
        ];
        for folder in system.filter(|folder| folder.exists()) {
            mounts.push(bind(folder, &folder.display().to_string(), "ro"));
        }
        for mount in container.volume_mounts.iter().flatten() {
            let folder = match self.volumes.get(mount.name.as_str()) {
                Some(folder) => folder.clone(),
                None => self.empty(&mount.name, bundle)?,
            };
            let access = match mount.read_only {
                Some(true) => "ro",
                _ => "rw",
            };
            mounts.push(bind(&folder, &mount.mount_path, access));
        }
        let is_mounted = self.spec.automount_service_account_token != Some(false);
        if let Some(account) = self.account.as_ref().filter(|_| is_mounted) {
            mounts.push(bind(account, ACCOUNT, "ro"));
        }
        Ok(mounts)
    }

    /// Creates the folder of an empty volume as the kubelet does: for the group of the pod.
    fn empty(&self, name: &str, bundle: &Path) -> Result<PathBuf> {
        let volumes = self.spec.volumes.iter().flatten();
        let volume = volumes.into_iter().find(|volume| volume.name == name);
        let is_empty = volume.is_some_and(|volume| volume.empty_dir.is_some());
        ensure!(is_empty, "the test has no folder for the volume {name}");
        let folder = bundle.join(name);
        fs::create_dir(&folder)?;
        let context = self.spec.security_context.as_ref();
        let group = context.and_then(|context| context.fs_group);
        chown(&folder, None, group.map(u32::try_from).transpose()?)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o2770))?;
        Ok(folder)
    }
}

impl Running {
    /// The process that waits for the container. Its log has the output of the container.
    pub fn process(&self) -> &Process {
        &self.0
    }

    /// Sends SIGTERM to the container, as the kubelet does, and waits until it has ended.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        let pid = self.0.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let runtime = children.trim().parse().ok().and_then(Pid::from_raw);
        kill_process(runtime.context("the container has ended")?, Signal::TERM)?;
        until("the container has ended", async || {
            Ok(self.0.exited().ok_or_else(|| "it runs".to_owned()))
        })
        .await
    }
}

/// Creates a folder with these files as the kubelet mounts ConfigMaps and Secrets: behind a link that it exchanges.
/// Only the group may read them, besides root.
pub fn projected(folder: &Path, group: u32, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    const VERSION: &str = "..2026_01_02";
    let data = folder.join(VERSION);
    fs::create_dir_all(&data)?;
    for (name, content) in files {
        let file = data.join(name);
        fs::write(&file, content)?;
        fs::set_permissions(&file, Permissions::from_mode(0o440))?;
        chown(&file, None, Some(group))?;
        symlink(Path::new("..data").join(name), folder.join(name))?;
    }
    symlink(VERSION, folder.join("..data"))?;
    for folder in [folder, &data] {
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    Ok(())
}
