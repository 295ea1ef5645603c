//! Builders for the tests' objects, and the records of the controller's actions.

use std::time::Duration;

use flyball_sdk::imports::MetricOperation;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::TaintEviction;
use crate::evict::{DELETED, DURATION};

pub(super) const POD: &str = "v1/Pod";
pub(super) const NODE: &str = "v1/Node";
pub(super) const STATUS: &str = "v1/Pod/status";

/// A pod on the node `n` with these tolerations.
pub(super) fn pod(name: &str, tolerations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"), "generation": 3},
           "spec": {"nodeName": "n", "tolerations": tolerations},
           "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Tolerates the taint `key` for this time, or for ever.
pub(super) fn tolerates(key: &str, seconds: Option<i64>) -> Value {
    json!([{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// The pod is being deleted, with a grace period.
pub(super) fn deleting(pod: Value) -> Value {
    let pod = with(pod, "/metadata/deletionGracePeriodSeconds", 30);
    with(pod, "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z")
}

/// The pod is in the last step of its deletion: its grace period has ended, and no finalizer holds it.
pub(super) fn ending(pod: Value) -> Value {
    with(deleting(pod), "/metadata/deletionGracePeriodSeconds", 0)
}

/// The node `n` with these `NoExecute` taints.
pub(super) fn node(keys: &[&str]) -> Value {
    let taints: Vec<Value> = keys
        .iter()
        .map(|key| json!({"key": key, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": taints}})
}

/// Replaces the taints of the node `n`.
pub(super) fn taint(cluster: &Cluster, keys: &[&str]) {
    let taints = node(keys)["spec"]["taints"].clone();
    cluster.edit(NODE, "", "n", |node| node["spec"]["taints"] = taints);
}

pub(super) fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<TaintEviction>("n")
}

/// After this time.
pub(super) fn after(seconds: u64) -> Outcome {
    Outcome::RequeueAfter(Duration::from_secs(seconds))
}

/// Reconciles after this time has passed.
pub(super) fn pass(cluster: &Cluster, seconds: u64) -> Result<Outcome, Error> {
    cluster.advance(Duration::from_secs(seconds));
    reconcile(cluster)
}

/// The names of the marked and of the deleted pods since the last call, and whether each write is complete.
pub(super) fn written(cluster: &Cluster) -> [Vec<String>; 2] {
    let writes = cluster.writes();
    for write in &writes {
        let uid = format!("uid-{}", write.name);
        let is_complete = match write.verb.as_str() {
            "patch" => {
                let condition = &write.body["status"]["conditions"][0];
                write.subresource == "status"
                    && write.body["metadata"] == json!({"uid": uid})
                    && condition["type"] == "DisruptionTarget"
                    && condition["status"] == "True"
                    && condition["reason"] == "DeletionByTaintManager"
                    && condition["message"] == "Taint manager: deleting due to NoExecute taint"
                    // Changed tolerations raise it.
                    && condition["observedGeneration"].as_i64() >= Some(3)
            }
            _ => write.options == json!({"preconditions": {"uid": uid}}),
        };
        assert!(is_complete, "{write:?}");
    }
    ["patch", "delete"].map(|verb| {
        let of_verb = writes.iter().filter(|write| write.verb == verb);
        of_verb.map(|write| write.name.clone()).collect()
    })
}

/// Asserts that nothing was written.
pub(super) fn assert_idle(cluster: &Cluster) {
    assert_eq!(cluster.written(), Vec::<String>::new());
    assert_eq!(cluster.events(), Vec::<String>::new());
}

/// The number of deleted pods, and how late they were, by the metrics since the last call.
pub(super) fn counts(cluster: &Cluster) -> (f64, Vec<f64>) {
    let metrics = cluster.metrics();
    let of = |kind: MetricOperation, name: &str| -> Vec<f64> {
        metrics
            .iter()
            .filter(|(operation, metric, ..)| *operation == kind && metric == name)
            .map(|(.., value)| *value)
            .collect()
    };
    (
        of(MetricOperation::Add, DELETED).iter().sum(),
        of(MetricOperation::Observe, DURATION),
    )
}

pub(super) fn marking(pod: &str) -> String {
    format!("Normal TaintManagerEviction Marking for deletion Pod team/{pod}")
}

pub(super) fn cancelling(pod: &str) -> String {
    format!("Normal TaintManagerEviction Cancelling deletion of Pod team/{pod}")
}
