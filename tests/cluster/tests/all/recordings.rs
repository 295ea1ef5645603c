//! Calls on a real API server are recorded, and repeated without one: by the same version, by others, and in the shadow of
//! the one that runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use flyball_cluster_tests::{
    Cluster, Space, finish, greeted, guest, host, host_output, stamped, until,
};
use flyball_controlplane::Process;
use serde_json::Value;

const HOST: &str = "host";
const GREETER: &str = "greeter";
/// The annotation that the greeter reads, and another one of the same length.
const ANNOTATION: (&[u8], &[u8]) = (
    b"greeter.flyball.dev/greeting",
    b"greeter.flyball.dev/greetinG",
);

/// Runs a host with the greeter and a built-in controller.
async fn with_host(test: impl AsyncFnOnce(&Cluster) -> Result<()>) -> Result<()> {
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[guest(GREETER)?])?;
    let args = [
        "--controllers=serviceaccount-controller,greeter".to_owned(),
        format!("--plugin-dir={}", plugins.display()),
        "--trust-plugins".to_owned(),
    ];
    let host = cluster.spawn_host(HOST, cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        let runs = |status: &Value| status["state"] == "running";
        cluster.until_plugin(HOST, GREETER, "runs", runs).await?;
        test(&cluster).await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// Records all calls of a plugin until it is stopped.
struct Recorder {
    process: Process,
    file: PathBuf,
}

impl Recorder {
    fn start(cluster: &Cluster, plugin: &str) -> Result<Self> {
        let file = cluster.plane.dir().join(format!("{plugin}.fbrec"));
        let mut command = Command::new(host()?);
        command.args(["record", plugin, "--all", "-o"]).arg(&file);
        command
            .arg("--admin-socket")
            .arg(cluster.admin_socket(HOST));
        let name = format!("record-{plugin}");
        let log = cluster.plane.dir().join(format!("{name}.log"));
        let process = Process::spawn(&name, command, &log)?;
        Ok(Self { process, file })
    }

    /// Waits until the recording has a call with this text, and stops.
    async fn stop_after(mut self, text: &str) -> Result<PathBuf> {
        until(&format!("the recording has {text}"), async || {
            let recorded = std::fs::read_to_string(&self.file).unwrap_or_default();
            Ok(if recorded.contains(text) {
                Ok(())
            } else {
                Err(recorded)
            })
        })
        .await?;
        self.process.kill()?;
        Ok(self.file)
    }
}

/// The output of a command that fails.
fn failing_output(args: &[&str]) -> Result<String> {
    let output = Command::new(host()?).args(args).output()?;
    ensure!(
        !output.status.success(),
        "`flyball {}` has succeeded",
        args.join(" ")
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The greeter's file with another annotation in its place.
fn mutant(wasm: &[u8]) -> Vec<u8> {
    let (from, to) = ANNOTATION;
    let mut mutant = wasm.to_vec();
    let places: Vec<usize> = (0..wasm.len().saturating_sub(from.len()))
        .filter(|at| wasm[*at..].starts_with(from))
        .collect();
    for at in places {
        mutant[at..at + to.len()].copy_from_slice(to);
    }
    mutant
}

fn written(folder: &Path, name: &str, wasm: &[u8]) -> Result<String> {
    let path = folder.join(name);
    std::fs::write(&path, wasm).with_context(|| format!("can't write {}", path.display()))?;
    Ok(path.display().to_string())
}

#[tokio::test]
async fn recorded_calls_are_repeated_without_a_cluster_and_a_mutant_is_found() -> Result<()> {
    with_host(async |cluster| {
        let greeter = Recorder::start(cluster, GREETER)?;
        let builtin = Recorder::start(cluster, "serviceaccount-controller")?;
        until("both are recording", async || {
            let begun =
                [&greeter.file, &builtin.file].map(|file| std::fs::read(file).unwrap_or_default());
            Ok(if begun.iter().all(|bytes| bytes.ends_with(b"\n")) {
                Ok(())
            } else {
                Err("no".into())
            })
        })
        .await?;
        greeted(&cluster.client, "greeted").await?;
        let greeter = greeter
            .stop_after("\"verb\":\"delete\"")
            .await?
            .display()
            .to_string();
        let builtin = builtin
            .stop_after("\"verb\":\"create\"")
            .await?
            .display()
            .to_string();

        let folder = cluster.plane.dir();
        let (original, wasm) = (
            guest(GREETER)?.display().to_string(),
            std::fs::read(guest(GREETER)?)?,
        );
        let same = host_output(&["replay", &greeter, "--wasm", &original])?;
        ensure!(same.contains("all repeated"), "{same}");
        let repeated = host_output(&["replay", &builtin])?;
        ensure!(repeated.contains("all repeated"), "{repeated}");
        // Another file with the same code does the same.
        let other = written(folder, "stamped.wasm", &stamped(&wasm, "2"))?;
        let same = host_output(&["replay", &greeter, "--wasm", &other])?;
        ensure!(same.contains("repeated with: sha256:"), "{same}");
        let other = written(folder, "mutant.wasm", &mutant(&wasm))?;
        let parted = failing_output(&["replay", &greeter, "--wasm", &other])?;
        ensure!(
            parted.contains("parts") && parted.contains("greetinG"),
            "{parted}"
        );
        let checked = host_output(&[
            "replay",
            "--check",
            &folder.display().to_string(),
            "--wasm",
            &original,
        ]);
        // The recording of the built-in is another plugin's.
        ensure!(
            checked.is_err(),
            "a recording of another plugin is repeated"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_candidate_in_the_shadow_is_compared_and_promoted() -> Result<()> {
    with_host(async |cluster| {
        let folder = cluster.plane.dir();
        let wasm = std::fs::read(guest(GREETER)?)?;
        let candidate = written(folder, "mutant.wasm", &mutant(&wasm))?;
        cluster.operator_command(HOST, &["shadow", GREETER, &candidate])?;
        greeted(&cluster.client, "first").await?;
        let status = shadow_until(cluster, |status| !groups(status).is_empty()).await?;
        ensure!(
            status["description"].to_string().contains("greetinG"),
            "its description differs: {status}"
        );
        // Nothing was written by it: the greetings of the running version were right.
        let candidate = written(folder, "stamped.wasm", &stamped(&wasm, "2"))?;
        cluster.operator_command(HOST, &["shadow", GREETER, &candidate])?;
        greeted(&cluster.client, "second").await?;
        let status = shadow_until(cluster, |status| {
            status["findings"]["same"].as_u64() > Some(3)
        })
        .await?;
        ensure!(groups(&status).is_empty(), "it differs: {status}");
        let digest = status["digest"].as_str().context("no digest")?.to_owned();
        cluster.operator_command(HOST, &["promote", GREETER])?;
        let runs = |status: &Value| status["digest"] == digest && status["state"] == "running";
        cluster
            .until_plugin(HOST, GREETER, "is promoted", runs)
            .await?;
        cluster.operator_command(HOST, &["shadow", GREETER, "--drop"])?;
        let Err(none) = cluster.operator_command(HOST, &["shadow", GREETER]) else {
            bail!("a candidate that was dropped is still there")
        };
        ensure!(none.to_string().contains("no candidate"), "{none}");
        Ok(())
    })
    .await
}

fn groups(status: &Value) -> Vec<Value> {
    status["findings"]["groups"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

async fn shadow_until(cluster: &Cluster, is_met: impl Fn(&Value) -> bool) -> Result<Value> {
    until("the candidate has been called", async || {
        let shown = cluster.operator_command(HOST, &["shadow", GREETER, "-o", "json"])?;
        let status: Value = serde_json::from_str(&shown)?;
        Ok(if is_met(&status) {
            Ok(status)
        } else {
            Err(shown)
        })
    })
    .await
}

#[tokio::test]
async fn a_recording_names_its_plugin_and_an_unknown_plugin_is_an_error() -> Result<()> {
    with_host(async |cluster| {
        let file = cluster
            .plane
            .dir()
            .join("secrets.fbrec")
            .display()
            .to_string();
        let space = Space::create(cluster.client.clone(), "quiet").await?;
        space.wait_for_account().await?;
        let told = cluster.operator_command(HOST, &["record", GREETER, "-o", &file])?;
        ensure!(told.contains(&file), "{told}");
        let header = std::fs::read_to_string(&file)?;
        let header: Value = serde_json::from_str(header.lines().next().context("no header")?)?;
        ensure!(
            header["withSecrets"] == false && header["plugin"] == GREETER,
            "{header}"
        );
        let Err(unknown) = cluster.operator_command(HOST, &["record", "nobody", "-o", &file])
        else {
            bail!("a plugin that does not exist is recorded")
        };
        ensure!(
            unknown.to_string().contains("there is no plugin `nobody`"),
            "{unknown}"
        );
        Ok(())
    })
    .await
}
