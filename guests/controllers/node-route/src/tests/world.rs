//! The objects of the tests, and the steps on them.

use flyball_cloud::testing::FakeCloud;
use flyball_cloud::{NodeAddress, Route};
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::NodeRoute;

pub(super) const NODE: &str = "v1/Node";
pub(super) const STATUS: &str = "v1/Node/status";
pub(super) const CLUSTER: &str = "10.244.0.0/16,fd00:1::/48";

/// A node with these ranges.
pub(super) fn node(name: &str, pod_cidrs: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}")},
           "spec": {"podCIDRs": pod_cidrs},
           "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}})
}

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

pub(super) fn route(node: &str, cidr: &str) -> Route {
    Route {
        name: format!("{node}-{cidr}"),
        target_node: node.into(),
        destination_cidr: cidr.into(),
        ..Route::default()
    }
}

/// A route of a cloud that compares the addresses of nodes.
pub(super) fn addressed(node: &str, cidr: &str, addresses: &[&str]) -> Route {
    let address = |text: &&str| NodeAddress::new("InternalIP", text);
    Route {
        enable_node_addresses: true,
        target_node_addresses: addresses.iter().map(address).collect(),
        ..route(node, cidr)
    }
}

/// A cluster with these nodes, and a cloud with these routes.
pub(super) fn world(
    nodes: impl IntoIterator<Item = Value>,
    routes: impl IntoIterator<Item = Route>,
) -> (Cluster, FakeCloud) {
    let cluster = Cluster::with(nodes);
    cluster.set_config("cluster-cidr", CLUSTER);
    let cloud = FakeCloud::of(&cluster);
    routes.into_iter().for_each(|route| cloud.put_route(route));
    (cluster, cloud)
}

pub(super) fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<NodeRoute>("periodic")
}

/// The status, the reason and the message of a node's condition.
pub(super) fn condition(cluster: &Cluster, node: &str) -> String {
    let node = cluster.object(NODE, "", node).unwrap();
    let conditions = node["status"]["conditions"].as_array();
    let own = |one: &&Value| one["type"] == "NetworkUnavailable";
    match conditions.and_then(|all| all.iter().find(own)) {
        Some(one) => {
            let text = |field: &str| one[field].as_str().unwrap().to_owned();
            format!("{} {} {}", text("status"), text("reason"), text("message"))
        }
        None => String::new(),
    }
}

/// The outcomes and triggers of the counted runs since the last call.
pub(super) fn counted(cluster: &Cluster) -> Vec<String> {
    let metrics = cluster.metrics().into_iter();
    metrics.map(|(_, _, labels, _)| labels.join(" ")).collect()
}
