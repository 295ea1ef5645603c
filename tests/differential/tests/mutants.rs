//! Mutants of built-in controllers: the calls of the real ones, recorded on a cluster in memory, are repeated by the same
//! code, and each mutant parts from them.

#[path = "support/copy.rs"]
mod copy;
#[path = "mutants/scene.rs"]
mod scene;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use copy::{copy_tree, printed};
use flyball_cluster_tests::{host, until};
use flyball_controlplane::Process;
use flyball_testserver::api::ApiServer;
use tokio::task::LocalSet;
use xtask::guests::build_copy;

/// One change of behaviour in a controller.
struct Mutant {
    controller: &'static str,
    /// The source file, in `guests`.
    file: &'static str,
    /// The text that is replaced. The file has it once.
    from: &'static str,
    to: &'static str,
    /// Text of a call that the mutant makes differently. The recording is complete when it has the text.
    call: &'static str,
}

const MUTANTS: [Mutant; 10] = [
    Mutant {
        controller: "deployment-controller",
        file: "controllers/deployment/src/create.rs",
        from: "\"minReadySeconds\": deployment.min_ready_seconds,",
        to: "\"minReadySeconds\": deployment.min_ready_seconds + 1,",
        call: "\"verb\":\"create\"",
    },
    // Creates its pods one at a time.
    Mutant {
        controller: "replicaset-controller",
        file: "lib/replicas/src/scale.rs",
        from: "active.abs_diff(wanted).min(BURST)",
        to: "active.abs_diff(wanted).min(1)",
        call: "\"verb\":\"create\"",
    },
    // Its pods lack the finalizer, so that they may be deleted before they are counted.
    Mutant {
        controller: "job-controller",
        file: "controllers/job/src/template.rs",
        from: "if !has_finalizer(&template.metadata.finalizers)",
        to: "if has_finalizer(&template.metadata.finalizers)",
        call: "\"verb\":\"create\"",
    },
    // Creates a pod before the one before it is ready.
    Mutant {
        controller: "statefulset-controller",
        file: "controllers/statefulset/src/plan.rs",
        from: "Self { need, blocks: true }",
        to: "Self { need, blocks: false }",
        call: "\"hostname\":\"db-0\"",
    },
    // Its pods run on any node but the one that they are for.
    Mutant {
        controller: "daemonset-controller",
        file: "controllers/daemonset/src/template.rs",
        from: "\"operator\": \"In\"",
        to: "\"operator\": \"NotIn\"",
        call: "\"matchFields\"",
    },
    // Names Jobs by another minute.
    Mutant {
        controller: "cronjob-controller",
        file: "controllers/cronjob/src/template.rs",
        from: "time.seconds / 60)",
        to: "time.seconds / 60 + 1)",
        call: "\"verb\":\"create\"",
    },
    // Sends traffic to pods that are not ready.
    Mutant {
        controller: "endpointslice-controller",
        file: "controllers/endpointslice/src/endpoints.rs",
        from: "(serving && !terminating)",
        to: "(serving || !terminating)",
        call: "\"ready\":false",
    },
    // Lets all pods be disrupted at once.
    Mutant {
        controller: "disruption-controller",
        file: "controllers/disruption/src/status.rs",
        from: "counts.healthy.saturating_sub(counts.desired).max(0)",
        to: "counts.healthy.max(0)",
        call: "\"disruptionsAllowed\":1",
    },
    // Leaves active namespaces without an account.
    Mutant {
        controller: "serviceaccount-controller",
        file: "controllers/serviceaccount/src/lib.rs",
        from: "namespace.phase.as_deref() == Some(\"Active\")",
        to: "namespace.phase.as_deref() != Some(\"Active\")",
        call: "\"verb\":\"create\"",
    },
    // Deletes a Job before its pods.
    Mutant {
        controller: "ttl-after-finished-controller",
        file: "controllers/ttl-after-finished/src/lib.rs",
        from: "Propagation::Foreground",
        to: "Propagation::Background",
        call: "\"verb\":\"delete\"",
    },
];

#[tokio::test]
#[ignore = "takes long: `cargo xtask test --full` runs it"]
async fn each_mutant_of_a_built_in_controller_parts_from_its_recording() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let recordings = LocalSet::new().run_until(record(folder.path())).await?;
    let built = tokio::task::spawn_blocking(|| build(&MUTANTS)).await??;
    for ((mutant, recording), wasm) in MUTANTS.iter().zip(recordings).zip(built) {
        let controller = mutant.controller;
        let same = replay(&recording, &[])?;
        let told = printed(&same);
        ensure!(
            same.status.success() && told.contains("all repeated"),
            "the unchanged {controller} parts from its own calls:\n{told}"
        );
        let file = folder.path().join(format!("{controller}.wasm"));
        fs::write(&file, wasm)?;
        let parted = replay(&recording, &["--wasm", &file.display().to_string()])?;
        let told = printed(&parted);
        ensure!(
            parted.status.code() == Some(1) && told.contains("parts"),
            "{controller} with `{}` in place of `{}` repeats all calls:\n{told}",
            mutant.to,
            mutant.from
        );
        println!("{controller}: {told}");
    }
    Ok(())
}

#[test]
fn each_mutant_changes_one_place() -> Result<()> {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests");
    MUTANTS
        .iter()
        .try_for_each(|mutant| mutant.mutated(&guests).map(drop))
}

impl Mutant {
    /// Returns the file with the change, from this folder of guests.
    fn mutated(&self, guests: &Path) -> Result<String> {
        let path = guests.join(self.file);
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("can't read {}", path.display()))?;
        let places = text.matches(self.from).count();
        ensure!(
            places == 1,
            "{} has `{}` {places} times: correct the list of mutants",
            path.display(),
            self.from
        );
        Ok(text.replace(self.from, self.to))
    }
}

/// Builds mutants, each in its own crates of one copy of the tree. Returns their components.
fn build(mutants: &[Mutant]) -> Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    // In the same place each time, so that the target folder does not grow.
    let tree = folder.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).context("can't remove the tree of the last run")?;
    }
    copy_tree(&tree)?;
    let guests = tree.join("guests");
    for mutant in mutants {
        fs::write(guests.join(mutant.file), mutant.mutated(&guests)?)?;
    }
    let packages = mutants.iter().map(|mutant| mutant.controller.to_owned());
    let packages: Vec<String> = packages.collect();
    build_copy(&tree, &folder.join("target"), &packages)
}

/// Records the calls of the controllers on a cluster in memory. Returns the files, in the order of the mutants.
async fn record(folder: &Path) -> Result<Vec<PathBuf>> {
    let server = ApiServer::start(scene::kinds()).await?;
    let mut host = start_host(&server, folder)?;
    let socket = socket(folder);
    until("the host has its admin socket", async || {
        Ok(socket
            .exists()
            .then_some(())
            .ok_or_else(|| host.log_tail(10)))
    })
    .await?;
    let mut recorders = Vec::new();
    for mutant in &MUTANTS {
        recorders.push(start_recorder(mutant.controller, folder).await?);
    }
    for object in scene::objects() {
        server.put(object).map_err(anyhow::Error::msg)?;
    }
    let recordings = MUTANTS.map(|mutant| recording(folder, mutant.controller));
    for (mutant, recording) in MUTANTS.iter().zip(&recordings) {
        let what = format!("{} has made the call {}", mutant.controller, mutant.call);
        until(&what, async || {
            let recorded = fs::read_to_string(recording)?;
            let has_it = recorded.contains(mutant.call);
            let log = || format!("{recorded}\n{}", host.log_tail(10));
            Ok(has_it.then_some(()).ok_or_else(log))
        })
        .await?;
    }
    host.stop().await?;
    for mut recorder in recorders {
        let name = recorder.name().to_owned();
        until(&format!("the recording of {name} has ended"), async || {
            Ok(recorder.exited().ok_or_else(|| "it goes on".to_owned()))
        })
        .await?;
    }
    Ok(recordings.to_vec())
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("admin.sock")
}

fn recording(folder: &Path, controller: &str) -> PathBuf {
    folder.join(format!("{controller}.fbrec"))
}

/// Starts a host with the controllers that have mutants.
fn start_host(server: &ApiServer, folder: &Path) -> Result<Process> {
    let kubeconfig = folder.join("kubeconfig");
    fs::write(&kubeconfig, scene::kubeconfig(&server.url()))?;
    let controllers = MUTANTS.map(|mutant| mutant.controller).join(",");
    let mut command = Command::new(host()?);
    let path = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    command
        .args(["run", "--leader-elect=false", "--secure-port=0"])
        .arg(format!("--controllers={controllers}"))
        .arg(path("kubeconfig", &kubeconfig))
        .arg(path("admin-socket", &socket(folder)))
        .arg(path("state-dir", &folder.join("state")));
    Process::spawn("host", command, &folder.join("host.log"))
}

/// Begins to record a controller.
async fn start_recorder(controller: &str, folder: &Path) -> Result<Process> {
    let file = recording(folder, controller);
    let log = folder.join(format!("{controller}.log"));
    let start = || {
        let mut command = Command::new(host()?);
        command.args(["record", controller, "--all", "--with-secrets", "-o"]);
        command.arg(&file).arg("--admin-socket").arg(socket(folder));
        Process::spawn(controller, command, &log)
    };
    let mut process = start()?;
    until(&format!("{controller} is recorded"), async || {
        if process.exited().is_some() {
            // The host does not have the controller yet.
            process = start()?;
        }
        let begun = fs::read(&file).is_ok_and(|begun| begun.ends_with(b"\n"));
        Ok(begun.then_some(()).ok_or_else(|| process.log_tail(10)))
    })
    .await?;
    Ok(process)
}

fn replay(recording: &Path, more: &[&str]) -> Result<Output> {
    let mut command = Command::new(host()?);
    let output = command.arg("replay").arg(recording).args(more).output();
    output.context("can't run the host's program")
}
