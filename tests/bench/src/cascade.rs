//! The cost of garbage collection: owners with many dependents are deleted with background and with foreground
//! propagation.

use std::time::Instant;

use anyhow::{Context, Result};
use flyball_cluster_tests::Cluster;
use flyball_controlplane::{Options, Process};
use flyball_differential::writes::Writes;
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{REST, chosen_controllers, controllers, create_all, create_namespace};
use super::process::{CpuSpan, cpu_seconds, peak_mib, resident_mib};
use super::report::Figures;
use super::wait::wait;

pub(super) const NAMESPACE: &str = "cascade";
const OWNERS: usize = 20;

/// Starts the chosen controllers on a cluster, and waits until the collector works and is idle.
pub(super) async fn start_collector(subject: Subject, cluster: &Cluster) -> Result<Process> {
    let collector = controllers(subject, cluster, chosen_controllers())?;
    wait_for_collector(cluster).await?;
    tokio::time::sleep(REST).await;
    Ok(collector)
}

/// Measures one subject, with this number of dependents of each of 20 owners.
pub(super) async fn measure(subject: Subject, dependents: usize) -> Result<Figures> {
    let cluster = Cluster::without_nodes(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    let client = &cluster.client;
    create_namespace(client, NAMESPACE).await?;
    let mut figures = Figures::default();
    fill(&cluster, "background", dependents).await?;
    let mut collector = start_collector(subject, &cluster).await?;
    figures.push("CPU at the start, s", cpu_seconds(&collector)?);
    figures.push("memory with all in view, MiB", resident_mib(&collector)?);
    let (time, used) =
        collect(&cluster, &collector, "background", dependents, "Background").await?;
    figures.push("background: time, s", time);
    figures.push("background: CPU, s", used);
    fill(&cluster, "foreground", dependents).await?;
    tokio::time::sleep(REST).await;
    let (time, used) =
        collect(&cluster, &collector, "foreground", dependents, "Foreground").await?;
    figures.push("foreground: time, s", time);
    figures.push("foreground: CPU, s", used);
    figures.push("peak memory, MiB", peak_mib(&collector)?);
    collector.stop().await?;
    figures.push(
        "API writes",
        Writes::count(&cluster.plane.audit_events()?, NAMESPACE).total() as f64,
    );
    cluster.shutdown().await?;
    Ok(figures)
}

/// Creates owners and their dependents.
async fn fill(cluster: &Cluster, family: &str, dependents: usize) -> Result<()> {
    let client = &cluster.client;
    for number in 0..OWNERS {
        let owner = format!("{family}-{number}");
        let created = api::create(client, NAMESPACE, &map(&owner, None)).await?;
        let uid = created["metadata"]["uid"]
            .as_str()
            .context("an object has no UID")?
            .to_owned();
        let dependents = (0..dependents)
            .map(|dependent| map(&format!("{owner}-{dependent}"), Some((&owner, &uid))));
        create_all(client, NAMESPACE, dependents).await?;
    }
    Ok(())
}

/// A ConfigMap with an owner, by name and UID, that it blocks.
pub(super) fn map(name: &str, owner: Option<(&str, &str)>) -> Value {
    let owners: Vec<Value> = owner
        .map(|(name, uid)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true})
        })
        .into_iter()
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

/// Waits until the collector has collected an object whose owner never existed.
async fn wait_for_collector(cluster: &Cluster) -> Result<()> {
    let client = &cluster.client;
    api::create(
        client,
        NAMESPACE,
        &map(
            "witness",
            Some(("nobody", "00000000-0000-0000-0000-000000000000")),
        ),
    )
    .await?;
    wait("the collector works", async || {
        let object = api::get(client, "ConfigMap", NAMESPACE, "witness").await?;
        Ok((usize::from(object.is_none()), 1))
    })
    .await
}

/// Deletes the owners. Returns the time until all dependents are deleted, and the collector's CPU time, both in
/// seconds.
async fn collect(
    cluster: &Cluster,
    collector: &Process,
    family: &str,
    dependents: usize,
    policy: &str,
) -> Result<(f64, f64)> {
    let (client, span, begun) = (&cluster.client, CpuSpan::begin(collector)?, Instant::now());
    for number in 0..OWNERS {
        let options = json!({"propagationPolicy": policy});
        api::delete_with(
            client,
            "ConfigMap",
            NAMESPACE,
            &format!("{family}-{number}"),
            &options,
        )
        .await?;
    }
    let all = OWNERS * (dependents + 1);
    // A complete list would cost the server more than the measured work. The first object and the number of the others
    // are enough.
    wait("all objects are deleted", async || {
        Ok((all - left(cluster, family).await?.min(all), all))
    })
    .await?;
    Ok((begun.elapsed().as_secs_f64(), span.used(collector)?))
}

/// The number of objects left of a family.
pub(super) async fn left(cluster: &Cluster, family: &str) -> Result<usize> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?limit=1");
    let list = api::send(&cluster.client, "GET", &path, None).await?;
    let first = list["items"][0]["metadata"]["name"]
        .as_str()
        .unwrap_or_default();
    let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0) as usize;
    Ok(if first.starts_with(family) {
        more + 1
    } else {
        0
    })
}
