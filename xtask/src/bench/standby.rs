//! Two processes, of which the one that leads is killed: how soon after it has the lease the other one writes.

use std::time::Duration;

use anyhow::{Context, Result};
use flyball_cluster_tests::Cluster;
use flyball_controlplane::{Options, Process};
use flyball_differential::{Subject, api};
use serde_json::{Value, json};

use super::bed::{owner, time};
use super::report::Figures;
use super::wait;

const NAMESPACE: &str = "standby";
const CONTROLLERS: &str = "replicaset-controller,serviceaccount-controller";
/// With a lease so short that nobody waits long for its end. What is measured begins when it is taken.
const FLAGS: [&str; 5] = [
    "--v=0",
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];
/// How long the standby gets to fill its caches.
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
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api::create(client, "", &namespace).await?;
    wait("the leader is at work", async || {
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
    wait("the standby is at work", async || {
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

/// The milliseconds from the answer by which the second holder had the lease to the request for the first pod.
fn first_write(audit: &[Value]) -> Result<f64> {
    let is = |event: &Value, verb: &str, resource: &str| {
        event["stage"] == "ResponseComplete"
            && event["verb"] == verb
            && event["objectRef"]["resource"] == resource
    };
    let pod = audit
        .iter()
        .find(|event| is(event, "create", "pods"))
        .context("nobody made a pod")?;
    let asked = time(pod, "requestReceivedTimestamp")?;
    // A holder updates the lease every half second; the one before was killed seconds before the next took it.
    let mut updates = Vec::new();
    for event in audit.iter().filter(|event| is(event, "update", "leases")) {
        let at = time(event, "stageTimestamp")?;
        let is_it = event["objectRef"]["name"] == "kube-controller-manager"
            && event["responseStatus"]["code"] == 200;
        if is_it && at <= asked {
            updates.push(at);
        }
    }
    let taken = updates
        .windows(2)
        .rev()
        .find(|pair| pair[0].duration_until(pair[1]).as_secs() >= 2);
    let taken = taken.context("nobody took the lease from another")?[1];
    Ok(taken.duration_until(asked).as_secs_f64() * 1000.0)
}
