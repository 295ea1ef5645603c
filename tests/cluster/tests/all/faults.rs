//! Faults during a rollout, which must still complete.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, log_of, new_image, until};
use flyball_controlplane::{Options, Process};
use serde_json::json;

const CONTROLLERS: &str = "deployment-controller,replicaset-controller,serviceaccount-controller";
/// Enough pods that a rollout takes several steps.
const PODS: i32 = 8;

#[tokio::test]
async fn an_api_server_that_restarts_only_delays_a_rollout() -> Result<()> {
    let (mut cluster, host, space) = rolled_out().await?;
    let result = async {
        begin_rollout(&space).await?;
        cluster.plane.restart_apiserver().await?;
        ends_well(&space).await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn a_host_continues_a_rollout_after_it_was_killed() -> Result<()> {
    let (cluster, mut host, space) = rolled_out().await?;
    let result = async {
        begin_rollout(&space).await?;
        host.kill()?;
        host = cluster.controllers("host-again", CONTROLLERS)?;
        ends_well(&space).await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn an_expired_watch_misses_nothing() -> Result<()> {
    let (mut cluster, mut host, space) = rolled_out().await?;
    let result = async {
        host.pause()?;
        space.redeploy(new_image("web:2")).await?;
        let pods = space.pods().await?;
        let victim = pods[0]
            .metadata
            .name
            .as_deref()
            .context("a pod has no name")?;
        space.delete_pod(victim).await?;
        until("the pod is deleted while the host is paused", async || {
            let left = space
                .api::<k8s_openapi::api::core::v1::Pod>()
                .get_opt(victim)
                .await?;
            Ok(left.map_or(Ok(()), |_| Err("the pod exists".into())))
        })
        .await?;
        cluster.plane.compact_etcd().await?;
        cluster.plane.restart_apiserver().await?;
        host.resume()?;
        ends_well(&space).await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn a_host_that_starts_before_the_api_server_logs_it_once_and_waits() -> Result<()> {
    let mut cluster = Cluster::start(Options::default()).await?;
    cluster.plane.stop_apiserver().await?;
    let args = [
        format!("--controllers={CONTROLLERS}"),
        "--use-service-account-credentials=true".into(),
        // At a greater verbosity, each line is written.
        "-v=2".into(),
    ];
    let host = cluster.spawn_host("host", cluster.plane.kcm_kubeconfig_path(), &args)?;
    let result = async {
        let says = "the API server can't be asked what it serves";
        until("the host logs that it waits", async || {
            let log = log_of(&host)?;
            Ok(if log.contains(says) { Ok(()) } else { Err(log) })
        })
        .await?;
        cluster.plane.start_apiserver().await?;
        let space = Space::create(cluster.client.clone(), "late").await?;
        space.deploy(2, "web:1", json!({})).await?;
        space.settled(2, "web:1").await?;
        let log = log_of(&host)?;
        let lines = log.lines().filter(|line| line.contains(says));
        let lines: Vec<&str> = lines.filter(|line| !line.contains(" repeated=")).collect();
        ensure!(
            lines.len() == 1,
            "for 3 controllers the host logs {} times that it waits: {lines:#?}",
            lines.len()
        );
        Ok(())
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

#[tokio::test]
async fn a_host_that_gets_sigterm_during_a_rollout_exits_with_code_0() -> Result<()> {
    let (cluster, mut host, space) = rolled_out().await?;
    let result = async {
        begin_rollout(&space).await?;
        let status = host.stop().await?;
        ensure!(status.code() == Some(0), "the host ended with {status}");
        host = cluster.controllers("host-again", CONTROLLERS)?;
        ends_well(&space).await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// Starts a cluster and the host, and waits for the pods of a Deployment.
async fn rolled_out() -> Result<(Cluster, Process, Space)> {
    let cluster = Cluster::start(Options::default()).await?;
    let host = cluster.controllers("host", CONTROLLERS)?;
    let space = Space::create(cluster.client.clone(), "rollout").await?;
    space.deploy(PODS, "web:1", json!({})).await?;
    space.settled(PODS, "web:1").await?;
    Ok((cluster, host, space))
}

/// Changes the image, and waits until the first pod has it.
async fn begin_rollout(space: &Space) -> Result<()> {
    space.redeploy(new_image("web:2")).await?;
    space
        .until_scene("the rollout has begun", |scene| scene.running("web:2") > 0)
        .await?;
    Ok(())
}

/// Waits until all pods run the new image, and checks that each image has one ReplicaSet.
async fn ends_well(space: &Space) -> Result<()> {
    let scene = space.settled(PODS, "web:2").await?;
    scene.set_of("web:1")?;
    scene.set_of("web:2")?;
    ensure!(
        scene.sets.len() == 2,
        "there are {} ReplicaSets",
        scene.sets.len()
    );
    Ok(())
}
