//! Controllers that are started on a cluster full of pods, and then see some of them change all the time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{NAMESPACE, controllers, create_all, make_namespace, owner, plane};
use super::churn::Churn;
use super::process::{cpu, peak_mib, resident_mib};
use super::report::Figures;
use super::wait;

/// Pods of each ReplicaSet.
const REPLICAS: usize = 50;
/// Bytes of a pod, in JSON.
const POD: usize = 10_000;
/// How long all is left alone before memory is looked at.
const REST: Duration = Duration::from_secs(5);
/// Changes in a second.
const CHANGES: u32 = 100;

/// Measures a start against so many pods, and what their changes cost, if they change for a while.
pub(super) async fn measure(subject: Subject, pods: usize, steady: Option<Duration>) -> Result<Figures> {
    let cluster = plane(false).await?;
    let (client, sets) = (&cluster.client, pods / REPLICAS);
    make_namespace(client).await?;
    // Without controllers nobody makes the account that pods have.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    create_all(client, NAMESPACE, [account].into_iter()).await?;
    create_all(client, NAMESPACE, (0..sets).map(|number| owner("ReplicaSet", &format!("web-{number}"), REPLICAS)))
        .await?;
    let owners = api::list(client, "ReplicaSet", NAMESPACE).await?;
    let filler = filler(&owners[0])?;
    create_all(
        client,
        NAMESPACE,
        owners.iter().flat_map(|owner| (0..REPLICAS).map(|number| pod(owner, number, &filler))),
    )
    .await?;

    let (mut figures, begun) = (Figures::default(), Instant::now());
    let mut controllers = controllers(subject, &cluster)?;
    wait("all sets have counted their pods", async || {
        let sets = api::list(client, "ReplicaSet", NAMESPACE).await?;
        let counted: u64 = sets.iter().filter_map(|set| set["status"]["replicas"].as_u64()).sum();
        Ok((counted as usize, pods))
    })
    .await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    tokio::time::sleep(REST).await;
    figures.push("CPU, s", cpu(&controllers)?);
    figures.push("peak memory, MiB", peak_mib(&controllers)?);
    figures.push("memory after, MiB", resident_mib(&controllers)?);
    if let Some(time) = steady {
        let names = api::list(client, "Pod", NAMESPACE).await?;
        let names = names.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect();
        let before = cpu(&controllers)?;
        let churn = Churn::of_pods(client, names, CHANGES);
        tokio::time::sleep(time).await;
        churn.stop().await?;
        figures.push("steady: CPU, s", cpu(&controllers)? - before);
        figures.push("steady: memory after, MiB", resident_mib(&controllers)?);
    }
    controllers.stop().await?;
    cluster.shutdown().await?;
    Ok(figures)
}

/// Environment variables that make a pod of this owner as large as pods are.
fn filler(owner: &Value) -> Result<Value> {
    let small = serde_json::to_string(&pod(owner, 0, &json!([])))?.len();
    let variable = |number: usize| json!({"name": format!("SETTING_{number:03}"), "value": "x".repeat(60)});
    let each = serde_json::to_string(&variable(0))?.len() + 1;
    // The server adds fields of its own, about a fifth.
    let missing = (POD * 4 / 5).checked_sub(small).context("a pod is larger than it should be")?;
    Ok((0..missing / each).map(variable).collect())
}

/// A pod of a set, bound to a node.
fn pod(owner: &Value, number: usize, filler: &Value) -> Value {
    let name = &owner["metadata"]["name"];
    let mut pod = owner["spec"]["template"].clone();
    let text = name.as_str().unwrap_or_default();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = format!("{text}-{number:05}").into();
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    pod["spec"]["nodeName"] = format!("node-{}", number % 20).into();
    pod["spec"]["containers"][0]["env"] = filler.clone();
    pod
}
