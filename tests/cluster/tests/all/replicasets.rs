//! ReplicaSets and service accounts on a real API server: adoption and release of pods, the order of
//! deletions, and refused writes.

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{
    Cluster, Scenarios, Space, finish, is_ready, merged, until, with_image, workload,
};
use flyball_controlplane::Options;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

/// More refusals than this in a namespace that is being deleted indicate a hot loop.
const MAX_REFUSALS: usize = 20;

#[tokio::test]
async fn replicasets_behave_as_under_kube_controller_manager() -> Result<()> {
    let cluster = Cluster::start(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    let host = cluster.controllers(
        "host",
        "deployment-controller,replicaset-controller,serviceaccount-controller",
    )?;
    let mut scenarios = Scenarios::new(&cluster);
    scenarios.add(
        "an_orphan_that_matches_is_adopted",
        an_orphan_that_matches_is_adopted,
    );
    scenarios.add(
        "a_pod_whose_label_changed_is_released",
        a_pod_whose_label_changed_is_released,
    );
    scenarios.add(
        "pods_that_are_not_ready_are_deleted_first",
        pods_that_are_not_ready_are_deleted_first,
    );
    scenarios.add(
        "refused_pods_are_a_condition_until_they_are_created",
        refused_pods_are_a_condition_until_they_are_created,
    );
    scenarios.add(
        "a_namespace_in_deletion_gets_no_pods",
        a_namespace_in_deletion_gets_no_pods,
    );
    scenarios.add(
        "owner_references_are_complete",
        owner_references_are_complete,
    );
    scenarios.add(
        "a_deleted_default_account_is_created_again",
        a_deleted_default_account_is_created_again,
    );
    let mut result = scenarios.run().await;
    if result.is_ok() {
        result = refusals_are_few(&cluster);
    }
    finish(cluster, [host], result).await
}

/// Checked last, so that a hot loop has time to make many requests.
fn refusals_are_few(cluster: &Cluster) -> Result<()> {
    let events = cluster.plane.audit_events()?;
    let refused = events.iter().filter(|event| {
        event["verb"] == "create"
            && event["objectRef"]["resource"] == "pods"
            && event["objectRef"]["namespace"] == "a-namespace-in-deletion-gets-no-pods"
            && event["responseStatus"]["code"] == 403
    });
    let refused = refused.count();
    ensure!(
        refused <= MAX_REFUSALS,
        "{refused} pods were refused in a namespace that is being deleted"
    );
    Ok(())
}

async fn an_orphan_that_matches_is_adopted(space: Space) -> Result<()> {
    let pod = json!({"metadata": {"name": "orphan", "labels": {"app": "web"}}, "spec": with_image("web:1")});
    space.create_object::<Pod>(pod).await?;
    until_pods_are_seen(&space).await?;
    let set = create_set(&space, 2).await?;
    let pods = settled(&space, 2).await?;
    let orphan = pods
        .iter()
        .find(|pod| pod.name_any() == "orphan")
        .context("the orphan was deleted")?;
    let owner = controller(orphan).context("the orphan has no owner")?;
    ensure!(
        Some(&owner.uid) == set.metadata.uid.as_ref(),
        "the orphan has another owner: {owner:?}"
    );
    Ok(())
}

async fn a_pod_whose_label_changed_is_released(space: Space) -> Result<()> {
    create_set(&space, 2).await?;
    let name = settled(&space, 2).await?[0].name_any();
    space
        .change::<Pod>(&name, json!({"metadata": {"labels": {"app": "other"}}}))
        .await?;
    until("the pod is released and replaced", async || {
        let pods = space.pods().await?;
        let released = pods
            .iter()
            .find(|pod| pod.name_any() == name)
            .context("the released pod was deleted")?;
        let owned = pods.iter().filter(|&pod| controller(pod).is_some()).count();
        let done = controller(released).is_none() && owned == 2 && pods.len() == 3;
        Ok(if done {
            Ok(())
        } else {
            Err(format!("{} pods, {owned} of them owned", pods.len()))
        })
    })
    .await
}

async fn pods_that_are_not_ready_are_deleted_first(space: Space) -> Result<()> {
    create_set(&space, 3).await?;
    let name = settled(&space, 3).await?[1].name_any();
    space
        .change::<Pod>(
            &name,
            json!({"metadata": {"annotations": {"fake-kubelet.flyball.dev/ready": "never"}}}),
        )
        .await?;
    until_status(&space, "one pod is not ready", |status| {
        status["readyReplicas"] == 2
    })
    .await?;
    space
        .change::<ReplicaSet>("web", json!({"spec": {"replicas": 2}}))
        .await?;
    let left = settled(&space, 2).await?;
    ensure!(
        left.iter().all(|pod| pod.name_any() != name),
        "a ready pod was deleted instead"
    );
    Ok(())
}

async fn refused_pods_are_a_condition_until_they_are_created(space: Space) -> Result<()> {
    // No quota controller runs, so the test writes the status.
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}});
    space.create_object::<ResourceQuota>(quota).await?;
    allow_pods(&space, "1").await?;
    create_set(&space, 3).await?;
    let failed = |status: &Value| {
        condition(status, "ReplicaFailure") == Some(("True".into(), "FailedCreate".into()))
    };
    until_status(&space, "pods are refused", |status| {
        failed(status) && status["replicas"] == 1
    })
    .await?;
    space
        .change::<ResourceQuota>("few", json!({"spec": {"hard": {"pods": "10"}}}))
        .await?;
    allow_pods(&space, "10").await?;
    settled(&space, 3).await?;
    until_status(&space, "the condition is removed", |status| {
        condition(status, "ReplicaFailure").is_none()
    })
    .await?;
    Ok(())
}

/// Writes the quota's status as its controller would.
async fn allow_pods(space: &Space, hard: &str) -> Result<()> {
    let used = space.pods().await?.len().to_string();
    let status = json!({"status": {"hard": {"pods": hard}, "used": {"pods": used}}});
    let quotas = space.api::<ResourceQuota>();
    quotas
        .patch_status("few", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

async fn a_namespace_in_deletion_gets_no_pods(space: Space) -> Result<()> {
    create_set(&space, 2).await?;
    let victim = settled(&space, 2).await?[0].name_any();
    Api::<Namespace>::all(space.client.clone())
        .delete(&space.name, &DeleteParams::default())
        .await?;
    space.delete_pod(&victim).await?;
    until_status(&space, "one pod is left", |status| status["replicas"] == 1).await?;
    Ok(())
}

async fn owner_references_are_complete(space: Space) -> Result<()> {
    let deployment = space.deploy(1, "web:1", json!({})).await?;
    let scene = space.settled(1, "web:1").await?;
    let set = scene.set_of("web:1")?;
    let pairs = [
        (controller(set), "Deployment", deployment.metadata.uid),
        (
            controller(&scene.pods[0]),
            "ReplicaSet",
            set.metadata.uid.clone(),
        ),
    ];
    for (owner, kind, uid) in pairs {
        let owner = owner.with_context(|| format!("an object of the {kind} has no owner"))?;
        ensure!(
            owner.kind == kind
                && owner.api_version == "apps/v1"
                && Some(&owner.uid) == uid.as_ref(),
            "{owner:?}"
        );
        ensure!(
            owner.block_owner_deletion == Some(true),
            "{owner:?} does not block its owner's deletion"
        );
    }
    Ok(())
}

async fn a_deleted_default_account_is_created_again(space: Space) -> Result<()> {
    let old = space.wait_for_account().await?;
    space
        .api::<ServiceAccount>()
        .delete("default", &DeleteParams::default())
        .await?;
    until("a new account exists", async || {
        let new = space.api::<ServiceAccount>().get_opt("default").await?;
        let is_new = new.is_some_and(|new| new.uid() != old.uid());
        Ok(if is_new {
            Ok(())
        } else {
            Err("there is no new account".into())
        })
    })
    .await
}

async fn create_set(space: &Space, replicas: i32) -> Result<ReplicaSet> {
    space
        .create_object(merged(
            json!({"metadata": {"name": "web"}}),
            json!({"spec": workload(replicas, "web:1")}),
        ))
        .await
}

/// Waits until the controller has seen all current pods: until it reports a new pod of another ReplicaSet
/// as ready. Removes that pod again. A controller that saw a ReplicaSet before a pod that matches would
/// create too many pods, and might then delete the one that it adopts.
async fn until_pods_are_seen(space: &Space) -> Result<()> {
    let labels = json!({"app": "canary"});
    let canary = json!({
        "metadata": {"name": "canary"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": with_image("web:1")},
        },
    });
    space.create_object::<ReplicaSet>(canary).await?;
    let has_pods = async |number: i32| {
        until(&format!("the canary has {number} ready pods"), async || {
            let canary = space.api::<ReplicaSet>().get("canary").await?;
            let status = canary.status.unwrap_or_default();
            let numbers = (status.replicas, status.ready_replicas.unwrap_or_default());
            Ok(if numbers == (number, number) {
                Ok(())
            } else {
                Err(format!("{numbers:?}"))
            })
        })
        .await
    };
    has_pods(1).await?;
    space
        .change::<ReplicaSet>("canary", json!({"spec": {"replicas": 0}}))
        .await?;
    has_pods(0).await
}

/// Waits until this number of pods exist and are ready, and the status counts them.
async fn settled(space: &Space, replicas: usize) -> Result<Vec<Pod>> {
    until(&format!("{replicas} pods are ready"), async || {
        let (status, pods) = (status(space).await?, space.pods().await?);
        let counted = ["replicas", "readyReplicas", "availableReplicas"]
            .iter()
            .all(|name| status[name] == replicas);
        let ready = pods.len() == replicas && pods.iter().all(is_ready);
        Ok(if counted && ready {
            Ok(pods)
        } else {
            Err(format!("{} pods; status {status}", pods.len()))
        })
    })
    .await
}

async fn until_status(space: &Space, what: &str, is_met: impl Fn(&Value) -> bool) -> Result<()> {
    until(what, async || {
        let status = status(space).await?;
        Ok(if is_met(&status) {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await
}

/// The status of the ReplicaSet `web`.
async fn status(space: &Space) -> Result<Value> {
    let set = space
        .api::<ReplicaSet>()
        .get("web")
        .await
        .context("can't read the ReplicaSet")?;
    Ok(serde_json::to_value(set.status)?)
}

/// The status and the reason of a condition.
fn condition(status: &Value, kind: &str) -> Option<(String, String)> {
    let found = status["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)?;
    Some((
        found["status"].as_str()?.to_owned(),
        found["reason"].as_str()?.to_owned(),
    ))
}

fn controller<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))
}
