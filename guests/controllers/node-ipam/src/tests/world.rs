//! Builders of nodes and clusters, and the reconciles of each queue.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use crate::{COUNTS, NodeIpam};

pub(super) const NODE: &str = "v1/Node";

/// A node with these ranges.
pub(super) fn node(name: &str, ranges: &[&str]) -> Value {
    let spec = match ranges {
        [] => json!({}),
        [first, ..] => json!({"podCIDR": first, "podCIDRs": ranges}),
    };
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": spec})
}

/// A cluster with four blocks, `10.0.0.0/24` to `10.0.3.0/24`.
pub(super) fn cluster(nodes: impl IntoIterator<Item = Value>) -> Cluster {
    configured(nodes, "10.0.0.0/22", "24", "")
}

/// A cluster with four blocks of IPv4 and two of IPv6.
pub(super) fn dual_stack(nodes: impl IntoIterator<Item = Value>) -> Cluster {
    configured(nodes, "10.0.0.0/22,fd00::/63", "24,64", "")
}

pub(super) fn configured(
    nodes: impl IntoIterator<Item = Value>,
    cluster: &str,
    mask_sizes: &str,
    services: &str,
) -> Cluster {
    let world = Cluster::with(nodes);
    world.set_config("cluster-cidrs", cluster);
    world.set_config("node-cidr-mask-sizes", mask_sizes);
    world.set_config("service-cidrs", services);
    world
}

pub(super) fn reconcile(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    cluster.reconcile::<NodeIpam>(name)
}

/// Reconciles a node until nothing changes any more, and returns its ranges.
pub(super) fn settle(cluster: &Cluster, name: &str) -> Vec<String> {
    for _ in 0..9 {
        if reconcile(cluster, name).expect("it succeeds") == Outcome::Done {
            reconcile(cluster, name).expect("its own change is fine");
            return ranges(cluster, name);
        }
    }
    panic!("{name} never gets its ranges")
}

pub(super) fn count(cluster: &Cluster) {
    let request = Request::new(COUNTS, "all");
    let outcome = cluster.reconcile_request::<NodeIpam>(&request);
    assert_eq!(outcome.expect("it succeeds"), Outcome::Done);
}

/// The ranges of a node.
pub(super) fn ranges(cluster: &Cluster, name: &str) -> Vec<String> {
    let node = cluster.object(NODE, "", name).expect("it exists");
    let found = &node["spec"]["podCIDRs"];
    let texts = found.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn not_available(name: &str) -> String {
    format!("Normal CIDRNotAvailable Node {name} status is now: CIDRNotAvailable")
}

pub(super) fn assignment_failed(name: &str) -> String {
    format!("Normal CIDRAssignmentFailed Node {name} status is now: CIDRAssignmentFailed")
}
