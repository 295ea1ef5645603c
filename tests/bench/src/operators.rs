//! Controllers in Go, as users write them, to compare plugins with.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flyball_cluster_tests::Cluster;
use flyball_controlplane::Process;
use xtask::run::{command, run, workspace};

use super::wait::wait;

/// What each of them prints once its caches are filled.
const WORKS: &str = "Starting workers";

/// Builds a package of the module in tests/bench/operator. The flags are those of the control plane's build, so that
/// packages of both are compiled once.
pub(super) fn build(package: &str) -> Result<PathBuf> {
    let name = package.trim_start_matches("./").replace('.', "operator");
    let path = workspace().join("target/bench").join(name);
    let mut go = command("go");
    go.current_dir(workspace().join("tests/bench/operator"))
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
        .args(["-ldflags=-s -w", "-o"])
        .arg(&path)
        .arg(package);
    run(&mut go)
        .with_context(|| format!("can't build the package {package} in tests/bench/operator"))?;
    Ok(path)
}

/// Starts a controller with the path of the kubeconfig and these arguments, and waits until it works.
pub(super) async fn start(
    cluster: &Cluster,
    name: &str,
    program: &Path,
    arguments: &[&str],
) -> Result<Process> {
    let mut operator = command(program);
    operator
        .arg(cluster.plane.kubeconfig_path())
        .args(arguments);
    let log = cluster.plane.dir().join("operator.log");
    let operator = Process::spawn(name, operator, &log)?;
    wait("the operator works", async || {
        let works = operator.log_tail(usize::MAX).contains(WORKS);
        Ok((usize::from(works), 1))
    })
    .await
    .with_context(|| format!("the log of {name} is {}", operator.log_tail(10)))?;
    Ok(operator)
}
