//! The host of the demo: a child process that logs JSON. The demo reads the reconciles from the log.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_controlplane::Process;
use k8s_openapi::jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Marks the log lines of reconciles.
const RECONCILED: &str = r#""target":"flyball::reconcile""#;

/// A running host.
pub(super) struct Host {
    process: Process,
    log: BufReader<File>,
    /// The beginning of an incomplete line.
    partial: String,
}

/// Reads milliseconds since 1970.
fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let milliseconds = f64::deserialize(deserializer)?;
    Timestamp::from_microsecond((milliseconds * 1e3) as i64).map_err(D::Error::custom)
}

/// The log entry of a reconcile.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Reconciled {
    /// The time at which the reconcile ended.
    #[serde(rename = "ts", deserialize_with = "timestamp")]
    pub(super) timestamp: Timestamp,
    #[serde(rename = "plugin")]
    pub(super) controller: String,
    pub(super) key: String,
    /// Why the key was enqueued.
    pub(super) why: String,
    /// A description of its writes; empty if there were none.
    #[serde(default)]
    pub(super) wrote: String,
    pub(super) took_ms: f64,
}

impl Host {
    /// Starts the host whose reconciles are shown.
    pub(super) fn start(binary: &Path, dir: &Path, args: &[String]) -> Result<Self> {
        Self::start_as("flyball", binary, dir, args)
    }

    /// Starts a host whose log has this name.
    pub(super) fn start_as(name: &str, binary: &Path, dir: &Path, args: &[String]) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let mut command = Command::new(binary);
        command.arg("run").args(args).args([
            "--leader-elect=false",
            "--logging-format=json",
            "-v=4",
        ]);
        command.args(["--bind-address=127.0.0.1", "--secure-port=0"]);
        let process = Process::spawn(name, command, &log)?;
        let file =
            File::open(&log).with_context(|| format!("can't read the log {}", log.display()))?;
        Ok(Self {
            process,
            log: BufReader::new(file),
            partial: String::new(),
        })
    }

    pub(super) fn log_path(&self) -> &Path {
        self.process.log_path()
    }

    pub(super) fn log_tail(&self) -> String {
        self.process.log_tail(20)
    }

    /// Returns the reconciles since the last call.
    pub(super) fn reconciled(&mut self) -> Result<Vec<Reconciled>> {
        let mut found = Vec::new();
        loop {
            self.log
                .read_line(&mut self.partial)
                .context("can't read the host's log")?;
            if !self.partial.ends_with('\n') {
                break;
            }
            if self.partial.contains(RECONCILED) {
                let reconciled = serde_json::from_str(&self.partial);
                found.push(reconciled.with_context(|| {
                    format!(
                        "can't read the line of the host's log {}",
                        self.partial.trim_end()
                    )
                })?);
            }
            self.partial.clear();
        }
        if let Some(status) = self.process.exited() {
            anyhow::bail!("the host ended unexpectedly: {status}");
        }
        Ok(found)
    }

    /// Kills the host with SIGKILL.
    pub(super) fn kill(mut self) -> Result<()> {
        self.process.kill().context("can't kill the host")?;
        Ok(())
    }

    /// Stops the host with SIGTERM, and checks that it drains.
    pub(super) async fn stop(mut self) -> Result<()> {
        let status = self.process.stop().await.context("can't stop the host")?;
        ensure!(
            status.success(),
            "the host did not shut down cleanly on SIGTERM: {status}"
        );
        Ok(())
    }
}
