//! The reference implementation of an OCI registry, on loopback and without TLS, for tests of packages.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::go_binary::GoBinary;
use flyball_devcluster::Process;

/// How long it may take until the registry listens, and how often to check it.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

static BINARY: GoBinary = GoBinary {
    folder: "registry",
    below: "",
    name: "registry",
    of: "the registry",
    package: ".",
    tags: "",
    folders: &[],
    needs_newer_go: false,
    link: |_| Ok("-s -w".to_owned()),
};

/// A running registry. Dropping it kills the process and removes its content.
#[derive(Debug)]
pub struct Registry {
    address: String,
    /// Dropped before the folder.
    _process: Process,
    folder: TempDir,
}

impl Registry {
    /// Starts an empty registry. The binary is built if it is missing or its sources have changed, which needs Go and
    /// takes minutes.
    pub async fn start() -> anyhow::Result<Self> {
        let binary = BINARY.built().await?;
        let folder = tempfile::tempdir().context("can't create a folder for a registry")?;
        let config = folder.path().join("config.yml");
        // The kernel chooses the port, and the registry logs it.
        let text = format!(
            "version: 0.1\nlog: {{level: info}}\nhttp: {{addr: '127.0.0.1:0', secret: none}}\n\
             storage: {{filesystem: {{rootdirectory: '{}'}}}}\n",
            folder.path().join("data").display()
        );
        fs::write(&config, text).with_context(|| format!("can't write {}", config.display()))?;
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg(&config)
            .env("OTEL_TRACES_EXPORTER", "none");
        let mut process = Process::spawn("registry", command, &folder.path().join("log"))?;
        let start = Instant::now();
        loop {
            if let Some(address) = address(&process.log_tail(200)) {
                return Ok(Self {
                    address,
                    _process: process,
                    folder,
                });
            }
            if process.exited().is_some() || start.elapsed() > PATIENCE {
                bail!(
                    "the registry doesn't listen; the last lines of its log:\n{}",
                    process.log_tail(20)
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The address at which it listens, such as `127.0.0.1:40123`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The file of a blob.
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self
            .folder
            .path()
            .join("data/docker/registry/v2/blobs/sha256");
        blobs
            .join(hex.get(..2).unwrap_or_default())
            .join(hex)
            .join("data")
    }
}

/// The address that the registry logs.
fn address(log: &str) -> Option<String> {
    let (_, rest) = log.split_once("listening on ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':')?;
    Some(rest[..end].to_owned())
}
