//! Coordinated leader election: the API server chooses the leader among hosts and stock kube-controller-managers.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, log_of, until};
use flyball_controlplane::{Options, Process};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

const GATE: &str = "--feature-gates=CoordinatedLeaderElection=true";
/// The flags of each candidate. The times are shorter than the defaults, so that a leader ends soon after another was
/// chosen.
const FLAGS: [&str; 6] = [
    GATE,
    "--controllers=serviceaccount-controller",
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];

#[tokio::test]
async fn the_candidate_that_emulates_the_oldest_version_leads_be_it_flyball_or_stock() -> Result<()>
{
    let cluster = Cluster::without_nodes(Options {
        apiserver_args: vec![
            GATE.to_owned(),
            "--runtime-config=coordination.k8s.io/v1beta1=true".to_owned(),
        ],
        ..Options::default()
    })
    .await?;
    let mut last = None;
    let result = async {
        let mut current = candidate(&cluster, "current", "1.37")?;
        let first = another_holder(&cluster, "").await?;
        logs(&current, "acquired the lease").await?;

        let flags = [FLAGS.as_slice(), &["--emulated-version=1.35"]].concat();
        let mut stock = cluster.plane.start_kcm(&flags)?;
        let second = another_holder(&cluster, &first).await?;
        ends(&mut current).await?;
        let log = log_of(&current)?;
        let reason = format!("the API server has chosen {second} to hold it next");
        ensure!(log.contains(&reason), "its log is: {log}");

        logs(&stock, "Successfully acquired lease").await?;
        let oldest = last.insert(candidate(&cluster, "oldest", "1.34")?);
        let third = another_holder(&cluster, &second).await?;
        ends(&mut stock).await?;
        logs(oldest, "acquired the lease").await?;
        let log = log_of(oldest)?;
        ensure!(log.contains(&third), "{third} holds the lease: {log}");
        Ok(())
    };
    let result = result.await;
    finish(cluster, last, result).await
}

/// In a rolling upgrade, the processes of the release before lead until all of them have ended.
#[tokio::test]
#[ignore = "builds kube-controller-manager of the release before: `cargo xtask test --full` runs it"]
async fn stock_of_the_release_before_leads_until_it_ends() -> Result<()> {
    let cluster = Cluster::without_nodes(Options {
        apiserver_args: vec![
            GATE.to_owned(),
            "--runtime-config=coordination.k8s.io/v1beta1=true".to_owned(),
        ],
        ..Options::default()
    })
    .await?;
    let mut last = None;
    let result = async {
        let mut new = candidate(&cluster, "new", "1.37")?;
        let first = another_holder(&cluster, "").await?;
        logs(&new, "acquired the lease").await?;

        let before = tokio::task::spawn_blocking(flyball_controlplane::find_or_build_kcm_before);
        let before = Command::new(before.await.context("the build was cancelled")??);
        let mut before = cluster.plane.start_kcm_of(before, &FLAGS)?;
        let second = another_holder(&cluster, &first).await?;
        ends(&mut new).await?;
        logs(&before, "Successfully acquired lease").await?;

        // It emulates the same version as the other, and is a newer binary.
        let standby = last.insert(candidate(&cluster, "standby", "1.36")?);
        logs(standby, "attempting to acquire the lease").await?;
        before.stop().await?;
        let third = another_holder(&cluster, &second).await?;
        logs(standby, "acquired the lease").await?;
        let log = log_of(standby)?;
        ensure!(log.contains(&third), "{third} holds the lease: {log}");
        Ok(())
    };
    let result = result.await;
    finish(cluster, last, result).await
}

/// Starts a host that emulates a version.
fn candidate(cluster: &Cluster, name: &str, version: &str) -> Result<Process> {
    let version = format!("--emulated-version={version}");
    let flags = FLAGS.into_iter().chain([version.as_str()]);
    let flags: Vec<String> = flags.map(str::to_owned).collect();
    cluster.spawn_host(name, cluster.plane.kcm_kubeconfig_path(), &flags)
}

/// Waits until another process than this holds the lease, and returns its identity.
async fn another_holder(cluster: &Cluster, before: &str) -> Result<String> {
    let leases = Api::<Lease>::namespaced(cluster.client.clone(), "kube-system");
    until("another process holds the lease", async || {
        let lease = leases.get_opt("kube-controller-manager").await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder
            .filter(|holder| !holder.is_empty() && holder != before)
            .ok_or_else(|| format!("{before} holds it")))
    })
    .await
}

/// Waits until the log of a process has this text.
async fn logs(process: &Process, text: &str) -> Result<()> {
    until(&format!("the log has `{text}`"), async || {
        let log = log_of(process)?;
        Ok(if log.contains(text) { Ok(()) } else { Err(log) })
    })
    .await
}

async fn ends(process: &mut Process) -> Result<()> {
    let ended = until("the process has ended", async || {
        Ok(process.exited().ok_or_else(|| "it runs".to_owned()))
    });
    let status = ended.await?;
    ensure!(!status.success(), "it ended with {status}");
    status.code().context("it was killed").map(drop)
}
