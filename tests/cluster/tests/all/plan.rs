//! Plans over a real API server: what they predict is what happens, and they write nothing.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, Space, finish, host, new_image};
use flyball_controlplane::Options;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};

#[tokio::test]
async fn a_plan_predicts_a_rollout_and_writes_nothing() -> Result<()> {
    let options = Options {
        audit: true,
        ..Options::default()
    };
    let cluster = Cluster::start(options).await?;
    let controllers = "deployment-controller,replicaset-controller,serviceaccount-controller";
    let controllers = cluster.controllers("host", controllers)?;
    let result = predicts_a_rollout(&cluster).await;
    finish(cluster, [controllers], result).await
}

async fn predicts_a_rollout(cluster: &Cluster) -> Result<()> {
    let space = Space::create(cluster.client.clone(), "planned").await?;
    space.wait_for_account().await?;
    space.deploy(3, "web:1", json!({})).await?;
    space.settled(3, "web:1").await?;

    let (code, nothing) = plan(cluster, &space, &[]).await?;
    ensure!(
        code == Some(0),
        "a cluster at rest would change: {nothing:#}"
    );

    let folder = tempfile::tempdir()?;
    let change = folder.path().join("change.json");
    let spec = new_image("web:2");
    let metadata = json!({"name": "web", "namespace": space.name});
    let object =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
    fs::write(&change, object.to_string())?;
    let change = change.display().to_string();
    let before = versions(&space).await?;
    let (code, planned) = plan(cluster, &space, &["--change", &change]).await?;
    ensure!(code == Some(1), "the plan ended with {code:?}: {planned:#}");
    ensure!(
        versions(&space).await? == before,
        "the plan has changed objects"
    );
    ensure!(planned["complete"] == true, "{planned:#}");
    ensure!(planned["summary"]["restartedPods"] == 3, "{planned:#}");
    let set = changed(&planned, "created", "apps/v1/ReplicaSet");
    ensure!(set.len() == 1, "{planned:#}");
    ensure!(
        changed(&planned, "created", "v1/Pod").len() == 3,
        "{planned:#}"
    );
    ensure!(
        changed(&planned, "deleted", "v1/Pod").len() == 3,
        "{planned:#}"
    );
    // The API server has defaulted and admitted the pods, in dry runs.
    for pod in changed(&planned, "created", "v1/Pod") {
        let spec = &pod["after"]["spec"];
        ensure!(
            spec["serviceAccountName"] == "default" && spec["dnsPolicy"] == "ClusterFirst",
            "{pod:#}"
        );
    }

    space.redeploy(new_image("web:2")).await?;
    let scene = space.settled(3, "web:2").await?;
    let name = scene.set_of("web:2")?.name_any();
    ensure!(
        set[0]["name"] == name,
        "the ReplicaSet has the name {name}: {planned:#}"
    );

    // What the server refuses is refused in the plan, too.
    let wrong = folder.path().join("wrong.json");
    let mut object = object;
    object["spec"] = json!({"replicas": -1});
    fs::write(&wrong, object.to_string())?;
    let wrong = wrong.display().to_string();
    let refused = output(cluster, &space, &["--change", &wrong]).await?;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(
        refused.status.code() == Some(2) && error.contains("spec.replicas"),
        "{error}"
    );
    Ok(())
}

/// Runs a plan of the workloads' controllers. Returns its exit code and what it prints.
async fn plan(cluster: &Cluster, space: &Space, args: &[&str]) -> Result<(Option<i32>, Value)> {
    let output = output(cluster, space, args).await?;
    let error = String::from_utf8_lossy(&output.stderr);
    let printed = serde_json::from_slice(&output.stdout);
    let printed = printed.with_context(|| format!("the plan prints no JSON: {error}"))?;
    Ok((output.status.code(), printed))
}

async fn output(cluster: &Cluster, space: &Space, args: &[&str]) -> Result<std::process::Output> {
    let mut command = Command::new(host()?);
    command
        .args([
            "plan",
            "--controllers=deployment-controller,replicaset-controller",
            "--output=json",
        ])
        .arg(format!(
            "--kubeconfig={}",
            cluster.plane.kubeconfig_path().display()
        ))
        .arg(format!("--namespace={}", space.name))
        .args(args);
    let output = tokio::task::spawn_blocking(move || command.output()).await?;
    output.context("can't run the plan")
}

/// The changes of a kind by this action.
fn changed<'a>(plan: &'a Value, action: &str, kind: &str) -> Vec<&'a Value> {
    let changes = plan["changes"].as_array().into_iter().flatten();
    let is_meant = |change: &&Value| change["action"] == action && change["kind"] == kind;
    changes.filter(is_meant).collect()
}

/// The resource versions of the objects that a rollout changes, by name.
async fn versions(space: &Space) -> Result<BTreeMap<String, Option<String>>> {
    let scene = space.look().await?;
    let mut versions =
        BTreeMap::from([("deployment".to_owned(), scene.deployment.resource_version())]);
    let sets = scene
        .sets
        .iter()
        .map(|set| (set.name_any(), set.resource_version()));
    let pods = scene
        .pods
        .iter()
        .map(|pod: &Pod| (pod.name_any(), pod.resource_version()));
    versions.extend(sets.chain(pods));
    Ok(versions)
}
