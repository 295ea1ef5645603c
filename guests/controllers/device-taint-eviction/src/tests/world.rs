//! Builders for the tests' objects, and the records of the controller's actions.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::DeviceTaintEviction;

pub(super) const POD: &str = "v1/Pod";
pub(super) const STATUS: &str = "v1/Pod/status";
pub(super) const CLAIM: &str = "resource.k8s.io/v1/ResourceClaim";
pub(super) const SLICE: &str = "resource.k8s.io/v1/ResourceSlice";
pub(super) const RULE: &str = "resource.k8s.io/v1/DeviceTaintRule";

/// The time at which tests begin.
pub(super) const START: &str = "2026-01-01T00:00:00Z";

/// A pod on the node `n` that uses these claims.
pub(super) fn pod(name: &str, claims: &[&str]) -> Value {
    let claims: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"name": claim, "resourceClaimName": claim}))
        .collect();
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
           "spec": {"nodeName": "n", "resourceClaims": claims}})
}

/// A claim with this device of the pool `p`, for these pods, with these tolerations.
pub(super) fn claim(name: &str, device: &str, pods: &[&str], tolerations: Value) -> Value {
    let reserved: Vec<Value> = pods
        .iter()
        .map(|pod| json!({"resource": "pods", "name": pod, "uid": format!("uid-{pod}")}))
        .collect();
    let result = json!({"request": "r", "driver": "d", "pool": "p", "device": device, "tolerations": tolerations});
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
           "metadata": {"name": name, "namespace": "team"},
           "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}})
}

/// A toleration of a key for this time, or for ever.
pub(super) fn tolerates(key: &str, seconds: Option<i64>) -> Value {
    json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds})
}

/// A slice of the pool `p` with the device `a`, which has taints with these keys.
pub(super) fn slice(name: &str, generation: i64, keys: &[&str]) -> Value {
    let taints: Vec<Value> = keys.iter().map(|key| taint(key, "NoExecute")).collect();
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
           "spec": {"driver": "d", "pool": {"name": "p", "generation": generation},
                    "devices": [{"name": "a", "taints": taints}, {"name": "b"}]}})
}

pub(super) fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "effect": effect, "timeAdded": START})
}

/// A rule for the device `a`.
pub(super) fn rule(effect: &str) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule",
           "metadata": {"name": "r", "uid": "uid-r", "generation": 1},
           "spec": {"deviceSelector": {"device": "a"}, "taint": taint("rule", effect)}})
}

pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// A cluster with DeviceTaintRules.
pub(super) fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config("feature-gates.DRADeviceTaintRules", "true");
    cluster
}

/// Reconciles a pod.
pub(super) fn reconcile(cluster: &Cluster, pod: &str) -> Result<Outcome, Error> {
    cluster.reconcile::<DeviceTaintEviction>(&format!("team/{pod}"))
}

/// Reconciles a key of another queue.
pub(super) fn reconcile_in(cluster: &Cluster, queue: &str, key: &str) -> Outcome {
    let request = Request::new(queue, key);
    cluster
        .reconcile_request::<DeviceTaintEviction>(&request)
        .unwrap()
}

/// The keys that were enqueued in a queue since the last call, in order.
pub(super) fn enqueued(cluster: &Cluster, queue: &str) -> Vec<String> {
    let all = cluster.enqueued().into_iter();
    all.filter(|one| one.queue == queue)
        .map(|one| one.key)
        .collect()
}

/// Reconciles the keys of evicted pods until they are counted.
pub(super) fn count_evicted(cluster: &Cluster) {
    for key in enqueued(cluster, crate::EVICTED) {
        while reconcile_in(cluster, crate::EVICTED, &key) != Outcome::Done {}
    }
}

pub(super) fn after(seconds: u64) -> Outcome {
    Outcome::RequeueAfter(Duration::from_secs(seconds))
}

/// The writes of the eviction of a pod.
pub(super) fn eviction(pod: &str) -> [String; 2] {
    [
        format!("patch v1/Pod/status team/{pod}"),
        format!("delete v1/Pod team/{pod}"),
    ]
}

pub(super) const MARKING: &str = "Normal DeviceTaintManagerEviction Marking for deletion";
pub(super) const CANCELLING: &str = "Normal DeviceTaintManagerEviction Cancelling deletion";

pub(super) fn assert_idle(cluster: &Cluster) {
    assert_eq!(cluster.written(), Vec::<String>::new());
    assert_eq!(cluster.events(), Vec::<String>::new());
}

/// The status, the reason and the message of the rule's condition.
pub(super) fn condition(cluster: &Cluster) -> [String; 3] {
    let rule = cluster.object(RULE, "", "r").unwrap();
    let condition = &rule["status"]["conditions"][0];
    ["status", "reason", "message"].map(|field| {
        let text = condition[field].as_str();
        text.unwrap_or_default().to_owned()
    })
}
