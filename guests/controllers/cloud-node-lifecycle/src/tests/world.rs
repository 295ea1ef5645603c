//! The objects of the tests, and the steps on them.

use flyball_cloud::testing::FakeCloud;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::CloudNodeLifecycle;

pub(super) const NODE: &str = "v1/Node";
pub(super) const PATCH: &str = "patch v1/Node a";

/// A node with this status of the condition `Ready`.
pub(super) fn node(name: &str, ready: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}")},
           "spec": {"providerID": format!("fake://{name}")},
           "status": {"conditions": [{"type": "MemoryPressure", "status": "True"},
                                     {"type": "Ready", "status": ready}]}})
}

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

pub(super) fn shutdown_taint() -> Value {
    json!({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"})
}

/// A cluster with this node, and its cloud.
pub(super) fn world(node: Value) -> (Cluster, FakeCloud) {
    let cluster = Cluster::with([node]);
    let cloud = FakeCloud::of(&cluster);
    (cluster, cloud)
}

/// Makes a method of the cloud return this for all instances.
pub(super) fn always(cloud: &FakeCloud, method: &str, answer: bool) {
    cloud.on(method, move |_| Ok(json!({"bool": answer})));
}

/// A pass, after the time between two passes.
pub(super) fn pass(cluster: &Cluster) {
    cluster.advance(crate::DEFAULT_PERIOD);
    let outcome = cluster.reconcile::<CloudNodeLifecycle>("all").unwrap();
    assert_eq!(outcome, Outcome::RequeueAfter(crate::DEFAULT_PERIOD));
}

/// The taints of the node `a`.
pub(super) fn taints(cluster: &Cluster) -> Option<Value> {
    let node = cluster.object(NODE, "", "a").unwrap();
    node["spec"].get("taints").cloned()
}

/// The counted calls since the last call: operation and result.
pub(super) fn counted(cluster: &Cluster) -> Vec<String> {
    let metrics = cluster.metrics().into_iter();
    metrics
        .filter(|(_, name, ..)| name == crate::CALLS)
        .map(|(_, _, labels, _)| labels.join(" "))
        .collect()
}
