//! Deployments on a real API server: the life of a Deployment, and corner cases of rollouts, run
//! concurrently.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Scenarios, Space, finish, has_ended, is_ready, merged, new_image, pods_that, runs,
};
use flyball_controlplane::Options;
use kube::ResourceExt;
use serde_json::json;

const REVISION: &str = "deployment.kubernetes.io/revision";

#[tokio::test]
async fn deployments_behave_as_under_kube_controller_manager() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let host = cluster.controllers(
        "host",
        "deployment-controller,replicaset-controller,serviceaccount-controller",
    )?;
    let mut scenarios = Scenarios::new(&cluster);
    scenarios.add(
        "a_deployment_is_scaled_and_rolled_out",
        a_deployment_is_scaled_and_rolled_out,
    );
    scenarios.add(
        "recreate_ends_all_old_pods_before_it_creates_new_ones",
        recreate_ends_all_old_pods_before_it_creates_new_ones,
    );
    scenarios.add(
        "a_paused_deployment_scales_but_does_not_roll_out",
        a_paused_deployment_scales_but_does_not_roll_out,
    );
    scenarios.add(
        "a_rollback_reuses_the_old_replicaset",
        a_rollback_reuses_the_old_replicaset,
    );
    scenarios.add(
        "a_stuck_rollout_exceeds_its_deadline",
        a_stuck_rollout_exceeds_its_deadline,
    );
    scenarios.add(
        "old_replicasets_are_kept_up_to_the_limit",
        old_replicasets_are_kept_up_to_the_limit,
    );
    scenarios.add(
        "ready_pods_count_only_after_min_ready_seconds",
        ready_pods_count_only_after_min_ready_seconds,
    );
    finish(cluster, [host], scenarios.run().await).await
}

async fn a_deployment_is_scaled_and_rolled_out(space: Space) -> Result<()> {
    space.deploy(3, "web:1", json!({})).await?;
    let scene = space.settled(3, "web:1").await?;
    ensure!(scene.condition("Available").0 == "True");

    let victim = scene.pods[0].name_any();
    space.delete_pod(&victim).await?;
    space
        .until_scene("the pod is replaced", |scene| {
            scene.is_settled(3, "web:1") && scene.pods.iter().all(|pod| pod.name_any() != victim)
        })
        .await?;

    space.redeploy(json!({"replicas": 5})).await?;
    space.settled(5, "web:1").await?;

    space.redeploy(new_image("web:2")).await?;
    // By default, maxSurge and maxUnavailable are 25 % of 5: at most 7 pods, at least 4 ready ones.
    let scene = space
        .until_scene("5 pods run the new image", |scene| {
            let living = scene
                .pods
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none());
            assert!(
                living.clone().count() <= 7,
                "more pods than maxSurge allows"
            );
            assert!(
                living.filter(|pod| is_ready(pod)).count() >= 4,
                "fewer pods are ready than maxUnavailable allows"
            );
            scene.is_settled(5, "web:2")
        })
        .await?;
    ensure!(
        scene
            .deployment
            .annotations()
            .get(REVISION)
            .is_some_and(|revision| revision == "2")
    );
    ensure!(
        scene.sets.len() == 2,
        "there are {} ReplicaSets",
        scene.sets.len()
    );

    space.redeploy(json!({"replicas": 0})).await?;
    space.settled(0, "web:2").await?;
    Ok(())
}

async fn recreate_ends_all_old_pods_before_it_creates_new_ones(space: Space) -> Result<()> {
    let slow_end = pods_that([("terminate-after", Some("1s"))]);
    space
        .deploy(
            3,
            "web:1",
            merged(slow_end, json!({"strategy": {"type": "Recreate"}})),
        )
        .await?;
    space.settled(3, "web:1").await?;
    space.redeploy(new_image("web:2")).await?;
    space
        .until_scene("all pods run the new image", |scene| {
            let old = scene
                .pods
                .iter()
                .any(|pod| runs(pod, "web:1") && !has_ended(pod));
            assert!(
                !old || scene.running("web:2") == 0,
                "a new pod was created while an old one ran"
            );
            scene.is_settled(3, "web:2")
        })
        .await?;
    Ok(())
}

async fn a_paused_deployment_scales_but_does_not_roll_out(space: Space) -> Result<()> {
    space.deploy(2, "web:1", json!({})).await?;
    space.settled(2, "web:1").await?;
    space.redeploy(json!({"paused": true})).await?;
    space
        .redeploy(merged(new_image("web:2"), json!({"replicas": 4})))
        .await?;
    let scene = space
        .until_scene("4 pods of the old image are available", |scene| {
            let available = scene
                .deployment
                .status
                .as_ref()
                .and_then(|status| status.available_replicas);
            scene.is_observed() && available == Some(4) && scene.running("web:1") == 4
        })
        .await?;
    ensure!(
        scene.sets.len() == 1,
        "a paused Deployment began to roll out"
    );
    ensure!(
        scene.condition("Progressing") == ("Unknown", "DeploymentPaused"),
        "{:?}",
        scene.condition("Progressing")
    );
    space.redeploy(json!({"paused": false})).await?;
    space.settled(4, "web:2").await?;
    Ok(())
}

async fn a_rollback_reuses_the_old_replicaset(space: Space) -> Result<()> {
    space.deploy(2, "web:1", json!({})).await?;
    let first = space.settled(2, "web:1").await?.set_of("web:1")?.uid();
    space.redeploy(new_image("web:2")).await?;
    space.settled(2, "web:2").await?;
    space.redeploy(new_image("web:1")).await?;
    let scene = space.settled(2, "web:1").await?;
    let set = scene.set_of("web:1")?;
    ensure!(set.uid() == first, "the old template got a new ReplicaSet");
    ensure!(
        scene.sets.len() == 2,
        "there are {} ReplicaSets",
        scene.sets.len()
    );
    for annotations in [set.annotations(), scene.deployment.annotations()] {
        ensure!(
            annotations
                .get(REVISION)
                .is_some_and(|revision| revision == "3"),
            "{annotations:?}"
        );
    }
    let history = set
        .annotations()
        .get("deployment.kubernetes.io/revision-history");
    ensure!(
        history.is_some_and(|history| history == "1"),
        "the history is {history:?}"
    );
    Ok(())
}

async fn a_stuck_rollout_exceeds_its_deadline(space: Space) -> Result<()> {
    space
        .deploy(
            2,
            "web:1",
            merged(
                pods_that([("ready", Some("never"))]),
                json!({"progressDeadlineSeconds": 2}),
            ),
        )
        .await?;
    space
        .until_scene("the deadline is exceeded", |scene| {
            scene.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
        })
        .await?;
    space
        .redeploy(merged(new_image("web:2"), pods_that([("ready", None)])))
        .await?;
    space.settled(2, "web:2").await?;
    space
        .until_scene("the rollout has made progress again", |scene| {
            scene.condition("Progressing") == ("True", "NewReplicaSetAvailable")
        })
        .await?;
    Ok(())
}

async fn old_replicasets_are_kept_up_to_the_limit(space: Space) -> Result<()> {
    space
        .deploy(1, "web:1", json!({"revisionHistoryLimit": 1}))
        .await?;
    space.settled(1, "web:1").await?;
    for image in ["web:2", "web:3"] {
        space.redeploy(new_image(image)).await?;
        space.settled(1, image).await?;
    }
    let scene = space
        .until_scene("one old ReplicaSet is left", |scene| scene.sets.len() == 2)
        .await?;
    scene.set_of("web:2")?;
    scene.set_of("web:3")?;
    Ok(())
}

async fn ready_pods_count_only_after_min_ready_seconds(space: Space) -> Result<()> {
    space
        .deploy(1, "web:1", json!({"minReadySeconds": 2}))
        .await?;
    let scene = space.settled(1, "web:1").await?;
    let status = scene.pods[0]
        .status
        .as_ref()
        .context("the pod has no status")?;
    let ready = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    let ready = ready
        .and_then(|condition| condition.last_transition_time.clone())
        .context("the pod is not Ready")?;
    let status = scene
        .deployment
        .status
        .as_ref()
        .context("the Deployment has no status")?;
    let available = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_.as_deref() == Some("Available"));
    let available = available.and_then(|condition| condition.last_transition_time.clone());
    let available = available.context("the Deployment is not Available")?;
    let waited = available.0.as_second() - ready.0.as_second();
    ensure!(
        waited >= 2,
        "the Deployment was available {waited} s after its pod was ready"
    );
    Ok(())
}
