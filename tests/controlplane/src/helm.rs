//! Helm, built from its Go module, for tests of charts.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::go_binary::GoBinary;

static BINARY: GoBinary = GoBinary {
    folder: "helm",
    below: "",
    name: "helm",
    of: "Helm",
    package: "helm.sh/helm/v4/cmd/helm",
    tags: "",
    folders: &[],
    needs_newer_go: false,
    link: |_| Ok("-s -w".to_owned()),
};

/// Runs a command of Helm that needs no cluster, and returns its standard output. The binary is built if it is missing
/// or its version has changed, which needs Go and takes minutes.
///
/// # Errors
/// The build or the command fails. The error has what Helm printed.
pub async fn helm(args: &[&str]) -> anyhow::Result<String> {
    let binary = BINARY.built().await?;
    let home = tempfile::tempdir().context("can't create a folder for Helm")?;
    let mut command = Command::new(binary);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, home.path());
    }
    let output = command.args(args).output().context("can't run Helm")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "`helm {}` ended with {}: {printed}{}",
        args.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(printed)
}
