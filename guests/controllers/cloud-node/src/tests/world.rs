//! The objects of the tests, and the steps on them.

use flyball_cloud::NodeAddress;
use flyball_cloud::testing::FakeCloud;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::{ALL, CloudNode, PASSES};

pub(super) const NODE: &str = "v1/Node";
pub(super) const PATCH: &str = "patch v1/Node a";
pub(super) const STATUS_PATCH: &str = "patch v1/Node/status a";

/// The initialised node `a` with an address and a hostname.
pub(super) fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
           "metadata": {"name": "a", "uid": "uid-a", "creationTimestamp": "2025-12-31T23:59:30Z"},
           "spec": {"providerID": "fake://a"},
           "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"},
                                    {"type": "Hostname", "address": "a"}]}})
}

/// The node as a kubelet registers it.
pub(super) fn new_node() -> Value {
    let taint = json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true",
                       "effect": "NoSchedule"});
    let node = with(node(), "/spec/taints", json!([taint]));
    with(node, "/spec/providerID", "")
}

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// The node with the addresses that its kubelet was started with.
pub(super) fn provided(node: Value, addresses: &str) -> Value {
    let annotations = json!({"alpha.kubernetes.io/provided-node-ip": addresses});
    with(node, "/metadata/annotations", annotations)
}

/// A cluster with this node, and its cloud.
pub(super) fn world(node: Value) -> (Cluster, FakeCloud) {
    let cluster = Cluster::with([node]);
    let cloud = FakeCloud::of(&cluster);
    (cluster, cloud)
}

/// Makes the cloud know this of each node.
pub(super) fn knows(cloud: &FakeCloud, metadata: Value) {
    cloud.on("InstanceMetadata", move |_| {
        Ok(json!({"metadata": metadata}))
    });
}

pub(super) fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<CloudNode>("a")
}

/// The pass over the addresses of all nodes.
pub(super) fn pass(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile_request::<CloudNode>(&Request::new(PASSES, ALL))
}

/// The node as it is now.
pub(super) fn stored(cluster: &Cluster) -> Value {
    cluster.object(NODE, "", "a").unwrap()
}

pub(super) fn address(kind: &str, text: &str) -> NodeAddress {
    NodeAddress::new(kind, text)
}

pub(super) fn internal(text: &str) -> NodeAddress {
    address("InternalIP", text)
}
