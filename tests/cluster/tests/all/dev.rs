//! `flyball dev`: a saved file leads to a reconcile by the new code, and nothing runs after the end.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Example, Space, finish, guest, host, host_output, log_of, until,
};
use flyball_controlplane::{Process, skip};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::greeters::Greetings;

/// The line of the template for C that sets the text of the ConfigMap.
const TEXT: &str = "const char *text = fb_text(greeting, \"spec.text\");";
const FIRST_RECONCILE: &str = " -> first reconcile ";

#[tokio::test]
async fn a_saved_file_runs_at_once_and_a_mistake_leaves_the_version_before() -> Result<()> {
    if guest("greeter-c").is_err() {
        let test = "a_saved_file_runs_at_once_and_a_mistake_leaves_the_version_before";
        return skip(test, "no compiler for WASI is installed");
    }
    let folder = tempfile::tempdir()?;
    let project = folder.path().join("hello");
    let dir = project.display().to_string();
    host_output(&["new", "hello", "--lang", "c", "--dir", &dir])?;
    let binaries = folder.path().join("binaries");
    write_binaries(&binaries)?;
    let mut dev = Dev::start(
        folder.path(),
        &project,
        &[&format!("--control-plane={}", binaries.display())],
    )?;
    dev.until("a control plane runs").await?;
    let client = client_of(&dev).await?;
    let space = Space::create(client.clone(), "greeted").await?;
    let greetings = Greetings::of_group("hello.example.com", space);
    greetings.create("hello", "hi").await?;
    greetings.until_text("hello", "hi").await?;
    dev.until("started -> control plane ").await?;
    dev.until(FIRST_RECONCILE).await?;
    dev.until("built-in controllers: garbage-collector-controller, ")
        .await?;
    // The other commands find the host by the socket that is shown.
    let log = log_of(&dev.0)?;
    let socket = log
        .lines()
        .find_map(|line| line.strip_prefix("admin socket: "));
    let socket = socket.context("no socket is shown")?;
    let status = host_output(&["status", "--admin-socket", socket])?;
    ensure!(
        status.contains("hello ") && status.contains("namespace-controller "),
        "{status}"
    );
    ensure!(!log.contains("namespace-controller:"), "{log}");

    let source = project.join("src/greeter.c");
    let code = std::fs::read_to_string(&source)?;
    ensure!(code.matches(TEXT).count() == 1, "{code}");
    let saying = |text: &str| {
        let changed = format!("const char *text = {text:?};");
        code.replace(TEXT, &changed)
    };
    std::fs::write(&source, saying("new"))?;
    greetings.until_text("hello", "new").await?;
    dev.until("saved -> built ").await?;
    until("the times are shown again", async || {
        let log = log_of(&dev.0)?;
        let shown = log.matches(FIRST_RECONCILE).count();
        Ok(if shown == 2 { Ok(()) } else { Err(log) })
    })
    .await?;

    std::fs::write(&source, saying("broken") + "\noops\n")?;
    dev.until("the build failed: the version before goes on")
        .await?;
    let line = saying("broken").lines().count() + 2;
    dev.until(&format!("src/greeter.c:{line}:")).await?;
    let spoilt = json!({"data": {"text": "spoilt"}});
    greetings.space.change::<ConfigMap>("hello", spoilt).await?;
    greetings.until_text("hello", "new").await?;

    std::fs::write(&source, saying("newer"))?;
    greetings.until_text("hello", "newer").await?;
    // The controllers that authors rely on: a deleted namespace goes with all that it has.
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
        kube::Api::all(client.clone());
    namespaces.delete("greeted", &Default::default()).await?;
    until("the namespace is gone", async || {
        let found = namespaces.get_opt("greeted").await?;
        Ok(found.map_or(Ok(()), |found| Err(format!("{:?}", found.status))))
    })
    .await?;
    let status = dev.interrupt(folder.path()).await?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

#[tokio::test]
async fn a_project_with_a_policy_runs_with_its_rights_on_a_cluster() -> Result<()> {
    if guest("greeter-c").is_err() {
        let test = "a_project_with_a_policy_runs_with_its_rights_on_a_cluster";
        return skip(test, "no compiler for WASI is installed");
    }
    let cluster = Cluster::for_plugins().await?;
    let result = runs_with_its_rights(&cluster).await;
    finish(cluster, [], result).await
}

async fn runs_with_its_rights(cluster: &Cluster) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = cluster.plane.kubeconfig_path().display();
    let definition = Example::folders().join("greeter.crd.yaml");
    let flags = [
        format!("--kubeconfig={kubeconfig}"),
        format!("--apply={}", definition.display()),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let mut dev = Dev::start(folder.path(), &Example::folders().join("greeter-c"), &flags)?;
    for object in [
        "CustomResourceDefinition greetings.greeter.flyball.dev",
        "ServiceAccount greeter-c",
        "ClusterRoleBinding flyball:greeter-c",
    ] {
        dev.until(&format!("applied the {object}")).await?;
    }
    let space = Space::create(cluster.client.clone(), "greeted").await?;
    let greetings = Greetings::of(space);
    greetings.create("hello", "hi").await?;
    greetings.until_ready("hello", "True", "Greeted").await?;
    dev.until("greeted/hello: wrote the ConfigMap").await?;
    dev.until(FIRST_RECONCILE).await?;
    let status = dev.interrupt(folder.path()).await?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

#[test]
fn without_a_project_or_a_cluster_it_says_what_to_do() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let fails = |dir: &Path, flags: &[&str]| -> Result<String> {
        let output = Command::new(host()?)
            .arg("dev")
            .arg(dir)
            .args(flags)
            .env("PATH", "/usr/bin:/bin")
            .env_remove("KUBEBUILDER_ASSETS")
            .output()?;
        ensure!(output.status.code() == Some(1), "it ended with {output:?}");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let error = fails(folder.path(), &[])?;
    ensure!(error.contains("is not a project"), "{error}");
    ensure!(error.contains("flyball new"), "{error}");
    if guest("greeter-c").is_err() {
        let test = "without_a_project_or_a_cluster_it_says_what_to_do";
        return skip(test, "no compiler for WASI is installed");
    }
    let project = Example::folders().join("greeter-c");
    let error = fails(&project, &[])?;
    ensure!(
        error.contains("no cluster to run on: name one with --kubeconfig")
            && error.contains("there is no etcd in PATH"),
        "{error}"
    );
    let empty = folder.path().display().to_string();
    let error = fails(&project, &["--control-plane", &empty])?;
    ensure!(
        error.contains(&format!("there is no etcd in {empty}")),
        "{error}"
    );
    let error = fails(&project, &["--kubeconfig=/no/such"])?;
    ensure!(
        error.contains("the kubeconfig /no/such does not exist"),
        "{error}"
    );
    Ok(())
}

/// A running `flyball dev`.
struct Dev(Process);

impl Dev {
    /// Its temporary files are in `folder/tmp`.
    fn start(folder: &Path, project: &Path, flags: &[&str]) -> Result<Self> {
        let temporary = folder.join("tmp");
        std::fs::create_dir(&temporary)?;
        let mut command = Command::new(host()?);
        command.arg("dev").arg(project).args(flags);
        command.env("TMPDIR", &temporary);
        Process::spawn("dev", command, &folder.join("dev.log")).map(Self)
    }

    /// Waits until it has shown a text.
    async fn until(&self, text: &str) -> Result<()> {
        until(&format!("it shows {text:?}"), async || {
            let log = log_of(&self.0)?;
            Ok(if log.contains(text) { Ok(()) } else { Err(log) })
        })
        .await
    }

    /// Presses Ctrl-C, and checks that no process and no temporary folder is left.
    async fn interrupt(&mut self, folder: &Path) -> Result<ExitStatus> {
        let pid = i32::try_from(self.0.pid())?;
        let pid = Pid::from_raw(pid).context("no process has the ID 0")?;
        let temporary = folder.join("tmp");
        let children = processes_with(&temporary)?;
        ensure!(!children.is_empty(), "the host is not found");
        kill_process(pid, Signal::INT)?;
        let status = until("it ends", async || {
            Ok(self.0.exited().ok_or_else(|| "it runs".to_owned()))
        })
        .await?;
        let left = processes_with(&temporary)?;
        ensure!(left.is_empty(), "these still run: {left:?}");
        // The lock files of control planes stay.
        let names = temporary.read_dir()?.filter_map(Result::ok);
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left: Vec<String> = names
            .filter(|name| name.starts_with("flyball-dev-"))
            .collect();
        ensure!(left.is_empty(), "these are left: {left:?}");
        Ok(status)
    }
}

/// The command lines of all processes that mention a folder.
fn processes_with(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.display().to_string();
    let lines = Path::new("/proc")
        .read_dir()?
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    Ok(lines.filter(|line| line.contains(&folder)).collect())
}

/// Writes the programs `etcd` and `kube-apiserver` into a folder.
fn write_binaries(folder: &Path) -> Result<()> {
    std::fs::create_dir(folder)?;
    let assets = flyball_controlplane::find_or_build()?;
    for (name, command) in [
        ("etcd", assets.etcd()),
        ("kube-apiserver", assets.apiserver()),
    ] {
        let program = command.get_program().display().to_string();
        let arguments = command.get_args().map(|part| part.display().to_string());
        let arguments = arguments.collect::<Vec<_>>().join(" ");
        let path = folder.join(name);
        std::fs::write(
            &path,
            format!("#!/bin/sh\nexec '{program}' {arguments} \"$@\"\n"),
        )?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// A client with the kubeconfig that it shows.
async fn client_of(dev: &Dev) -> Result<Client> {
    let log = log_of(&dev.0)?;
    let shown = log.split("export KUBECONFIG=").nth(1);
    let path = shown.and_then(|rest| rest.lines().next());
    let path = path.with_context(|| format!("no kubeconfig is shown: {log}"))?;
    let kubeconfig = Kubeconfig::read_from(path)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}
