//! The time from a standby's acquisition of the lease to its first write, after the leader was killed.

use std::time::Duration;

use anyhow::{Context, Result};
use flyball_cluster_tests::Cluster;
use flyball_controlplane::{Options, Process};
use flyball_differential::{Subject, api};
use serde_json::Value;

use super::bed::{create_namespace, owner, time};
use super::report::Figures;
use super::wait::wait;

const NAMESPACE: &str = "standby";
const CONTROLLERS: &str = "replicaset-controller,serviceaccount-controller";
/// A short lease, so that it expires soon. The measurement begins when the standby acquires it.
const FLAGS: [&str; 5] = [
    "--v=0",
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];
/// How long to wait for the standby to fill its caches.
const REST: Duration = Duration::from_secs(5);

/// Measures one subject.
pub(super) async fn measure(subject: Subject) -> Result<Figures> {
    let cluster = Cluster::without_nodes(Options {
        audit: true,
        ..Options::default()
    })
    .await?;
    let client = &cluster.client;
    let mut leader = start(subject, &cluster, "leader")?;
    create_namespace(client, NAMESPACE).await?;
    wait("the leader works", async || {
        Ok((
            api::list(client, "ServiceAccount", NAMESPACE).await?.len(),
            1,
        ))
    })
    .await?;
    let mut standby = start(subject, &cluster, "standby")?;
    tokio::time::sleep(REST).await;
    leader.kill()?;
    api::create(client, NAMESPACE, &owner("ReplicaSet", "late", 1)).await?;
    wait("the standby works", async || {
        Ok((api::list(client, "Pod", NAMESPACE).await?.len(), 1))
    })
    .await?;
    standby.stop().await?;
    let first = first_write(&cluster.plane.audit_events()?)?;
    cluster.shutdown().await?;
    let mut figures = Figures::default();
    figures.push("lease taken to first write, ms", first);
    Ok(figures)
}

fn start(subject: Subject, cluster: &Cluster, name: &str) -> Result<Process> {
    subject.start_with(cluster, name, CONTROLLERS, 1000, 2000, &FLAGS)
}

/// The milliseconds from the response by which the second holder acquired the lease to the request that creates the
/// first pod.
fn first_write(audit: &[Value]) -> Result<f64> {
    let is = |event: &Value, verb: &str, resource: &str| {
        event["stage"] == "ResponseComplete"
            && event["verb"] == verb
            && event["objectRef"]["resource"] == resource
    };
    let pod = audit
        .iter()
        .find(|event| is(event, "create", "pods"))
        .context("no pod was created")?;
    let requested = time(pod, "requestReceivedTimestamp")?;
    // A holder renews the lease every half second. The first holder was killed seconds before the second acquired it,
    // so the acquisition follows the last gap of 2 s or more.
    let mut updates = Vec::new();
    for event in audit.iter().filter(|event| is(event, "update", "leases")) {
        let at = time(event, "stageTimestamp")?;
        let is_it = event["objectRef"]["name"] == "kube-controller-manager"
            && event["responseStatus"]["code"] == 200;
        if is_it && at <= requested {
            updates.push(at);
        }
    }
    let taken = updates
        .windows(2)
        .rev()
        .find(|pair| pair[0].duration_until(pair[1]).as_secs() >= 2);
    let taken = taken.context("the lease never changed hands")?[1];
    Ok(taken.duration_until(requested).as_secs_f64() * 1000.0)
}
