//! Builders for the tests' objects, and the reconciles of each queue.

use flyball_sdk::imports::MetricOperation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::delete::{DELETED, FAILED};
use crate::{DELETED_PODS, NODES, PodGarbageCollector, QUARANTINE};

pub(super) const POD: &str = "v1/Pod";
pub(super) const NODE: &str = "v1/Node";
pub(super) const STATUS: &str = "v1/Pod/status";

/// A pod in this phase, on no node.
pub(super) fn pod(name: &str, phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"), "generation": 3,
                        "creationTimestamp": "2025-01-01T00:00:00Z"},
           "status": {"phase": phase}})
}

pub(super) fn on(node: &str, pod: Value) -> Value {
    with(pod, "/spec/nodeName", node)
}

/// The pod is being deleted, with a grace period.
pub(super) fn deleted(pod: Value) -> Value {
    let pod = with(pod, "/metadata/deletionGracePeriodSeconds", 30);
    with(pod, "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z")
}

/// A finalizer keeps the pod.
pub(super) fn held(pod: Value) -> Value {
    with(pod, "/metadata/finalizers", json!(["x.io/held"]))
}

pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// A node with this status of the condition `Ready` and these keys of taints.
pub(super) fn node(name: &str, ready: &str, taints: &[&str]) -> Value {
    let taints: Vec<Value> = taints
        .iter()
        .map(|key| json!({"key": key, "effect": "NoExecute"}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints},
           "status": {"conditions": [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": ready}]}})
}

pub(super) fn tick(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<PodGarbageCollector>("all")
}

pub(super) fn deleted_pod(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    of(cluster, DELETED_PODS, &format!("team/{name}"))
}

pub(super) fn seen_node(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    of(cluster, NODES, name)
}

pub(super) fn quarantined_node(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    of(cluster, QUARANTINE, name)
}

fn of(cluster: &Cluster, queue: &str, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<PodGarbageCollector>(&Request::new(queue, key))
}

/// The names of the patched and of the deleted pods since the last call, and whether each write is complete.
pub(super) fn written(cluster: &Cluster) -> [Vec<String>; 2] {
    let writes = cluster.writes();
    for write in &writes {
        let is_complete = match write.verb.as_str() {
            "patch" => {
                write.subresource == "status"
                    && write.body["metadata"]["uid"] == format!("uid-{}", write.name)
                    && write.body["status"]["phase"] == "Failed"
            }
            _ => {
                let uid = format!("uid-{}", write.name);
                write.options == json!({"preconditions": {"uid": uid}, "gracePeriodSeconds": 0})
            }
        };
        assert!(is_complete, "{write:?}");
    }
    ["patch", "delete"].map(|verb| {
        let of_verb = writes.iter().filter(|write| write.verb == verb);
        of_verb.map(|write| write.name.clone()).collect()
    })
}

/// The values of the two counters since the last call, for a reason.
pub(super) fn counts(cluster: &Cluster, reason: &str) -> [f64; 2] {
    let metrics = cluster.metrics();
    [DELETED, FAILED].map(|counter| {
        let of_reason = metrics.iter().filter(|(operation, name, labels, _)| {
            *operation == MetricOperation::Add && name == counter && labels == &["team", reason]
        });
        of_reason.map(|(.., value)| value).sum()
    })
}
