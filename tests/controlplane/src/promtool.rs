//! promtool, built from Prometheus' Go module, for tests of alerts.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::go_binary::GoBinary;

static BINARY: GoBinary = GoBinary {
    folder: "promtool",
    below: "",
    name: "promtool",
    of: "promtool",
    package: "github.com/prometheus/prometheus/cmd/promtool",
    // Service discovery, which most of the code is for.
    tags: "remove_all_sd",
    folders: &[],
    needs_newer_go: false,
    link: |_| Ok("-s -w".to_owned()),
};

/// Runs the unit tests of rules in a file. promtool is built if it is missing or its version has changed, which needs
/// Go and takes minutes.
///
/// # Errors
/// The build or a test fails. The error has what promtool printed.
pub async fn test_rules(file: &Path) -> anyhow::Result<()> {
    let binary = BINARY.built().await?;
    let mut command = Command::new(binary);
    let output = command.args(["test", "rules"]).arg(file).output();
    let output = output.context("can't run promtool")?;
    ensure!(
        output.status.success(),
        "`promtool test rules {}` ended with {}:\n{}{}",
        file.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
