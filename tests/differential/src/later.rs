//! The controllers of a plane that only a later release of kube-controller-manager has. The API server of the current release
//! serves their API behind a feature gate, but it has no roles for them, and its kube-controller-manager lacks them.

use std::process::Command;

use anyhow::{Context, Result};
use flyball_cluster_tests::{Cluster, guest};
use flyball_controlplane::{Process, eviction_controllers};

use crate::folders::controllers;
use crate::plane::Plane;
use crate::{BURST, QPS, Subject};

/// The name of the stock binary and of its log.
const STOCK: &str = "eviction-controllers";

/// Creates the roles of these controllers by their policies.
///
/// # Errors
/// A component has not been built, or a role can't be created.
pub(crate) async fn create_roles(cluster: &Cluster, plane: &Plane) -> Result<()> {
    for controller in plane.later_controllers() {
        let policy = controllers()
            .join(controller.guest.folder)
            .join("policy.toml");
        cluster
            .apply_roles(&policy, &guest(controller.name)?)
            .await
            .with_context(|| format!("can't create the roles of {}", controller.name))?;
    }
    Ok(())
}

/// Starts these controllers of stock, in a process beside kube-controller-manager. The host has them among its own.
///
/// # Errors
/// They can't be built or started.
pub(crate) async fn start_stock(
    subject: Subject,
    cluster: &Cluster,
    plane: &Plane,
) -> Result<Option<Process>> {
    let names: Vec<&str> = plane.later_controllers().map(|one| one.name).collect();
    if subject == Subject::Flyball || names.is_empty() {
        return Ok(None);
    }
    // The first build takes minutes, in which other planes go on.
    let binary = tokio::task::spawn_blocking(eviction_controllers)
        .await
        .context("the build of the later controllers was cancelled")??;
    let mut command = Command::new(binary);
    let kubeconfig = cluster.plane.kcm_kubeconfig_path();
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--controllers={}", names.join(",")))
        .arg(format!("--kube-api-qps={QPS}"))
        .arg(format!("--kube-api-burst={BURST}"));
    let log = cluster.plane.dir().join(format!("{STOCK}.log"));
    Process::spawn(STOCK, command, &log).map(Some)
}
