//! Controllers that start on a cluster with many pods, and changes of these pods afterwards.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flyball_cluster_tests::Cluster;
use flyball_controlplane::{Options, Process, Snapshot};
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{
    FEW, NAMESPACE, controllers, create_all, create_namespace, owner, plane, pod_names,
};
use super::churn::{Change, Churn};
use super::process::{CpuSpan, cpu_seconds, peak_mib, resident_mib};
use super::report::Figures;
use super::wait::wait;

/// Pods per ReplicaSet.
const REPLICAS: usize = 50;
/// The size of a pod's JSON in bytes.
const POD_SIZE: usize = 10_000;
/// The idle time before memory is measured.
const REST: Duration = Duration::from_secs(5);
/// Changes per second.
const CHANGES: u32 = 100;

/// Snapshots of control planes with many objects, by what they are and their number. Each is created once, so that all
/// measurements begin with the same objects.
#[derive(Default)]
pub(super) struct Full(HashMap<(&'static str, usize), Snapshot>);

impl Full {
    /// Starts a control plane with `pods` pods that no controller has seen yet.
    async fn cluster(&mut self, pods: usize) -> Result<Cluster> {
        self.filled("pods", pods, fill).await
    }

    /// Starts a control plane with `count` objects, which `fill` creates unless there is a snapshot of them.
    pub(super) async fn filled(
        &mut self,
        what: &'static str,
        count: usize,
        fill: impl AsyncFnOnce(usize) -> Result<Snapshot>,
    ) -> Result<Cluster> {
        let snapshot = match self.0.get(&(what, count)) {
            Some(snapshot) => snapshot.clone(),
            None => {
                let snapshot = fill(count)
                    .await
                    .with_context(|| format!("can't create {count} {what}"))?;
                self.0.insert((what, count), snapshot.clone());
                snapshot
            }
        };
        plane(Options {
            scheduler: false,
            snapshot: Some(snapshot),
            ..Options::default()
        })
        .await
    }
}

/// Measures the start of the controllers on a cluster with `pods` pods.
pub(super) async fn start(subject: Subject, full: &mut Full, pods: usize) -> Result<Figures> {
    let (cluster, mut figures) = (full.cluster(pods).await?, Figures::default());
    let begun = Instant::now();
    let controllers = synced(subject, &cluster, pods).await?;
    figures.push("time, s", begun.elapsed().as_secs_f64());
    tokio::time::sleep(REST).await;
    figures.push("CPU, s", cpu_seconds(&controllers)?);
    figures.push("peak memory, MiB", peak_mib(&controllers)?);
    figures.push("memory after, MiB", resident_mib(&controllers)?);
    end(cluster, controllers).await?;
    Ok(figures)
}

/// Measures the cost of changes of pods.
pub(super) async fn steady(
    subject: Subject,
    full: &mut Full,
    pods: usize,
    time: Duration,
) -> Result<Figures> {
    let (cluster, mut figures) = (full.cluster(pods).await?, Figures::default());
    let controllers = synced(subject, &cluster, pods).await?;
    tokio::time::sleep(REST).await;
    figures.push(
        "CPU, s",
        changes(&cluster, &controllers, time, Change::Message).await?,
    );
    figures.push("memory after, MiB", resident_mib(&controllers)?);
    end(cluster, controllers).await?;
    Ok(figures)
}

/// Measures the CPU time of a change on a cluster with `few` pods and with ten times as many. Each change makes a pod
/// ready or not ready, so that its owner counts its pods again. The CPU time of idle controllers is subtracted.
pub(super) async fn growth(full: &mut Full, few: usize, time: Duration) -> Result<Figures> {
    let mut costs = Vec::new();
    for pods in [few, 10 * few] {
        let cluster = full.cluster(pods).await?;
        let controllers = synced(Subject::Flyball, &cluster, pods).await?;
        tokio::time::sleep(REST).await;
        let span = CpuSpan::begin(&controllers)?;
        tokio::time::sleep(time).await;
        let idle = span.used(&controllers)?;
        let busy = changes(&cluster, &controllers, time, Change::Readiness).await?;
        costs.push((busy - idle) / (time.as_secs_f64() * f64::from(CHANGES)) * 1e6);
        end(cluster, controllers).await?;
    }
    let mut figures = Figures::default();
    figures.push("CPU for a change among few pods, µs", costs[0]);
    figures.push("among ten times as many, µs", costs[1]);
    figures.push("the ratio of the two", costs[1] / costs[0]);
    Ok(figures)
}

/// Starts the controllers, and waits until they have counted all pods.
async fn synced(subject: Subject, cluster: &Cluster, pods: usize) -> Result<Process> {
    let controllers = controllers(subject, cluster, FEW)?;
    wait(
        "the statuses of the ReplicaSets count all pods",
        async || {
            let sets = api::list(&cluster.client, "ReplicaSet", NAMESPACE).await?;
            let counted: u64 = sets
                .iter()
                .filter_map(|set| set["status"]["replicas"].as_u64())
                .sum();
            Ok((counted as usize, pods))
        },
    )
    .await?;
    Ok(controllers)
}

/// Changes pods for this time. Returns the controllers' CPU time in seconds.
async fn changes(
    cluster: &Cluster,
    controllers: &Process,
    time: Duration,
    change: Change,
) -> Result<f64> {
    let names = pod_names(&cluster.client, |_| true).await?;
    let span = CpuSpan::begin(controllers)?;
    let churn = Churn::of_pods(&cluster.client, names, CHANGES, change);
    tokio::time::sleep(time).await;
    churn.stop().await?;
    span.used(controllers)
}

async fn end(cluster: Cluster, mut controllers: Process) -> Result<()> {
    controllers.stop().await?;
    cluster.shutdown().await
}

/// Creates `pods` pods on a control plane, and returns a snapshot of its etcd.
async fn fill(pods: usize) -> Result<Snapshot> {
    let cluster = plane(Options {
        scheduler: false,
        ..Options::default()
    })
    .await?;
    let (client, sets) = (&cluster.client, pods / REPLICAS);
    create_namespace(client, NAMESPACE).await?;
    // No controller runs that would create the service account that pods need.
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    create_all(client, NAMESPACE, [account].into_iter()).await?;
    create_all(
        client,
        NAMESPACE,
        (0..sets).map(|number| owner("ReplicaSet", &format!("web-{number}"), REPLICAS)),
    )
    .await?;
    let owners = api::list(client, "ReplicaSet", NAMESPACE).await?;
    let filler = filler(&owners[0])?;
    create_all(
        client,
        NAMESPACE,
        owners
            .iter()
            .flat_map(|owner| (0..REPLICAS).map(|number| pod(owner, number, &filler))),
    )
    .await?;
    cluster.plane.into_snapshot().await
}

/// Environment variables that make a pod of this owner about [`POD_SIZE`] large.
fn filler(owner: &Value) -> Result<Value> {
    let small = serde_json::to_string(&pod(owner, 0, &json!([])))?.len();
    let variable =
        |number: usize| json!({"name": format!("SETTING_{number:03}"), "value": "x".repeat(60)});
    let each = serde_json::to_string(&variable(0))?.len() + 1;
    // The fields that the server adds are about a fifth of the pod.
    let missing = (POD_SIZE * 4 / 5)
        .checked_sub(small)
        .context("a pod without variables is already too large")?;
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
