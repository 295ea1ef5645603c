//! Builders for the tests' objects, and the reconciles of each queue.

use std::time::Duration;

use flyball_sdk::imports::MetricOperation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::{LIMITERS, MONITOR, NODES, NodeLifecycle, PODS};

pub(super) const NODE: &str = "v1/Node";
pub(super) const NODE_STATUS: &str = "v1/Node/status";
pub(super) const POD: &str = "v1/Pod";
pub(super) const LEASE: &str = "coordination.k8s.io/v1/Lease";
pub(super) const START: &str = "2026-01-01T00:00:00Z";

/// A node in the zone `z` of no region, with this status of the condition `Ready` and a heartbeat at the start.
pub(super) fn node(name: &str, ready: &str) -> Value {
    node_in("z", name, ready)
}

pub(super) fn node_in(zone: &str, name: &str, ready: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
           "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2025-12-01T00:00:00Z",
                        "labels": {"topology.kubernetes.io/zone": zone}},
           "spec": {},
           "status": {"conditions": [
               {"type": "MemoryPressure", "status": "False", "reason": "Fine", "lastHeartbeatTime": START},
               {"type": "Ready", "status": ready, "reason": "Fine", "lastHeartbeatTime": START}]}})
}

pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// A `NoExecute` taint.
pub(super) fn taint(key: &str) -> Value {
    json!({"key": format!("node.kubernetes.io/{key}"), "effect": "NoExecute", "timeAdded": START})
}

pub(super) fn tainted(node: Value, keys: &[&str]) -> Value {
    let taints: Vec<Value> = keys.iter().map(|key| taint(key)).collect();
    with(node, "/spec/taints", taints)
}

pub(super) fn lease(name: &str, renewed: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
           "metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"renewTime": renewed}})
}

/// A pod on a node.
pub(super) fn pod(name: &str, node: &str, ready: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
           "spec": {"nodeName": node},
           "status": {"conditions": [{"type": "Initialized", "status": "True"},
                                     {"type": "Ready", "status": ready, "reason": "Kept", "message": "kept"}]}})
}

pub(super) fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// A pass of the monitor, and the reconciles of the nodes whose taints it changes.
pub(super) fn pass(cluster: &Cluster) {
    assert_eq!(to_the_end(cluster, MONITOR, "all").unwrap(), Outcome::Done);
}

/// Passes of the monitor at its period, until this time has passed.
pub(super) fn pass_for(cluster: &Cluster, time: u64) {
    for _ in 0..time / 5 {
        cluster.advance(seconds(5));
        pass(cluster);
    }
}

/// The turn of a zone, and the reconciles of the nodes that have it.
pub(super) fn turn(cluster: &Cluster, zone: &str) -> Result<Outcome, Error> {
    to_the_end(cluster, LIMITERS, &format!(":{zone}"))
}

/// Reconciles a key until it isn't requeued at once any more, and then the nodes that it has woken. Nodes that are not
/// done stay in their queue.
fn to_the_end(cluster: &Cluster, queue: &str, key: &str) -> Result<Outcome, Error> {
    let mut outcome = of(cluster, queue, key)?;
    while outcome == Outcome::RequeueAfter(Duration::ZERO) {
        outcome = of(cluster, queue, key)?;
    }
    for one in cluster.enqueued() {
        if one.queue != NODES || !matches!(changed_node(cluster, &one.key), Ok(Outcome::Done)) {
            let key = Key::new("", &one.key);
            cluster.host().queue().add(&one.queue, &key)?;
        }
    }
    Ok(outcome)
}

pub(super) fn changed_node(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    of(cluster, NODES, name)
}

pub(super) fn pods_of(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    of(cluster, PODS, name)
}

pub(super) fn of(cluster: &Cluster, queue: &str, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<NodeLifecycle>(&Request::new(queue, key))
}

/// A kubelet's heartbeat now.
pub(super) fn beat(cluster: &Cluster, name: &str, ready: &str) {
    let now = cluster.host().now();
    cluster.edit(NODE, "", name, |node| {
        node["status"]["conditions"][1] = json!({"type": "Ready", "status": ready, "reason": "Kubelet",
                                                 "lastHeartbeatTime": now});
    });
}

/// Renews a lease now, as often as kubelets do, until this time has passed. The monitor looks at its period.
pub(super) fn renew_for(cluster: &Cluster, names: &[&str], time: u64) {
    for _ in 0..time / 10 {
        let now = cluster.host().now();
        for name in names {
            cluster.edit(LEASE, "kube-node-lease", name, |lease| {
                lease["spec"]["renewTime"] = json!(now);
            });
        }
        pass_for(cluster, 10);
    }
}

/// The status and the reason of a condition.
pub(super) fn condition(cluster: &Cluster, node: &str, name: &str) -> String {
    let node = cluster.object(NODE, "", node).unwrap();
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|one| one["type"] == name).unwrap();
    format!(
        "{} {}",
        found["status"].as_str().unwrap(),
        found["reason"].as_str().unwrap()
    )
}

/// The keys and effects of a node's taints.
pub(super) fn taints(cluster: &Cluster, node: &str) -> Vec<String> {
    let node = cluster.object(NODE, "", node).unwrap();
    let line = |taint: &Value| {
        let key = taint["key"].as_str().unwrap();
        let key = key.trim_start_matches("node.kubernetes.io/");
        format!("{key} {}", taint["effect"].as_str().unwrap())
    };
    let taints = node["spec"]["taints"].as_array();
    taints.into_iter().flatten().map(line).collect()
}

/// The keys of a node's `NoExecute` taints.
pub(super) fn no_execute(cluster: &Cluster, node: &str) -> Vec<String> {
    let taints = taints(cluster, node);
    let evicting = taints
        .iter()
        .filter_map(|line| line.strip_suffix(" NoExecute"));
    evicting.map(str::to_owned).collect()
}

/// The values of a metric since the last call, with the labels.
pub(super) fn metric(cluster: &Cluster, name: &str) -> Vec<(MetricOperation, String, f64)> {
    let metrics = cluster.metrics().into_iter();
    metrics
        .filter(|(_, metric, ..)| metric == name)
        .map(|(operation, _, labels, value)| (operation, labels.join(","), value))
        .collect()
}

/// Drops all recorded writes, events and keys.
pub(super) fn forget(cluster: &Cluster) {
    drop((cluster.writes(), cluster.events(), cluster.enqueued()));
}

/// The keys that were enqueued since the last call.
pub(super) fn enqueued(cluster: &Cluster) -> Vec<String> {
    let line = |one: flyball_sdk::testing::Enqueued| format!("{} {}", one.queue, one.key);
    cluster.enqueued().into_iter().map(line).collect()
}
