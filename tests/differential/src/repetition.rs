//! Records all calls of the controllers while scenarios are played, and repeats them afterwards: `--replay`. A guest is a pure
//! function of what crosses its boundary, so that none may part from its recording.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use flyball_cluster_tests::{Cluster, host, until};
use flyball_controlplane::Process;

static REPEATS: OnceLock<()> = OnceLock::new();

/// Lets this process record and repeat the calls of Flyball's controllers.
pub fn repeat_calls() {
    let _ = REPEATS.set(());
}

/// The recordings of the controllers of one host.
pub(crate) struct Recordings {
    folder: PathBuf,
    /// By the names of the controllers.
    recorders: Vec<(String, Process)>,
}

impl Recordings {
    /// Begins to record the controllers of the host of this name; none unless calls are repeated.
    pub(crate) async fn start(cluster: &Cluster, host_name: &str) -> Result<Option<Self>> {
        if REPEATS.get().is_none() {
            return Ok(None);
        }
        let names = until("the host has its admin socket", async || {
            let running = |status: &serde_json::Value| status["state"] != "loading";
            Ok(match cluster.plugins(host_name) {
                Ok(all) if !all.is_empty() && all.iter().all(running) => {
                    let names = all.iter().filter_map(|status| status["name"].as_str());
                    Ok(names.map(str::to_owned).collect::<Vec<_>>())
                }
                other => Err(format!("{other:?}")),
            })
        })
        .await?;
        let folder = cluster.plane.dir().join("recordings");
        std::fs::create_dir_all(&folder)?;
        let recorders = names.into_iter().map(|name| {
            let mut command = Command::new(host()?);
            command.args(["record", &name, "--all", "--with-secrets", "-o"]);
            command.arg(folder.join(format!("{name}.fbrec")));
            command
                .arg("--admin-socket")
                .arg(cluster.admin_socket(host_name));
            let log = folder.join(format!("{name}.log"));
            Ok((name.clone(), Process::spawn(&name, command, &log)?))
        });
        Ok(Some(Self {
            recorders: recorders.collect::<Result<_>>()?,
            folder,
        }))
    }

    /// Repeats all calls once the host has ended. Returns what has parted from its recording, and what could not be
    /// recorded.
    pub(crate) async fn repeat(self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for (name, mut recorder) in self.recorders {
            let what = format!("the recording of {name} has ended");
            let ended = until(&what, async || {
                Ok(recorder.exited().ok_or_else(|| "it goes on".to_owned()))
            });
            let ended = ended.await?;
            let told = recorder.log_tail(10);
            if !ended.success() {
                problems.push(format!("{name} was not recorded: {told}"));
            } else if told.contains("too many at once") {
                println!("{name}: {told}");
            }
        }
        let repeated = Command::new(host()?)
            .args(["replay", "--check"])
            .arg(&self.folder)
            .output()
            .context("can't repeat the calls")?;
        let told = String::from_utf8_lossy(&repeated.stdout);
        println!("{told}");
        if !repeated.status.success() {
            let failed = String::from_utf8_lossy(&repeated.stderr);
            problems.push(format!("calls part from their recordings:\n{told}{failed}"));
        }
        Ok(problems)
    }
}
