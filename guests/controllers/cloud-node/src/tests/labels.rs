//! The labels of initialised nodes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

/// The labels of the node `a` after a reconcile of these.
fn reconciled(labels: Value) -> (Value, Vec<String>) {
    let (cluster, cloud) = world(with(node(), "/metadata/labels", labels));
    reconcile(&cluster).unwrap();
    assert!(cloud.called().is_empty());
    let written = cluster.written();
    (stored(&cluster)["metadata"]["labels"].clone(), written)
}

#[test]
fn missing_newer_labels_are_added_and_other_ones_corrected() {
    let (labels, written) = reconciled(json!({
        "failure-domain.beta.kubernetes.io/zone": "z",
        "failure-domain.beta.kubernetes.io/region": "r",
        "topology.kubernetes.io/region": "other",
        "beta.kubernetes.io/instance-type": "t",
        "kept": "yes",
    }));
    assert_eq!(written, [PATCH]);
    assert_eq!(labels["topology.kubernetes.io/zone"], "z");
    assert_eq!(labels["topology.kubernetes.io/region"], "r");
    assert_eq!(labels["node.kubernetes.io/instance-type"], "t");
    assert_eq!(labels["kept"], "yes");
}

#[test]
fn equal_labels_and_newer_ones_alone_stay() {
    let newer =
        json!({"topology.kubernetes.io/zone": "z", "node.kubernetes.io/instance-type": "t"});
    assert_eq!(reconciled(newer.clone()), (newer, vec![]));
    let both =
        json!({"failure-domain.beta.kubernetes.io/zone": "z", "topology.kubernetes.io/zone": "z"});
    assert_eq!(reconciled(both.clone()), (both, vec![]));
}

#[test]
fn a_refused_write_is_retried() {
    let labels = json!({"failure-domain.beta.kubernetes.io/zone": "z"});
    let (cluster, _) = world(with(node(), "/metadata/labels", labels));
    cluster.fail("patch", NODE, refusal(500, "InternalError"));
    reconcile(&cluster).unwrap_err();
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written().len(), 2);
}

#[test]
fn a_node_that_is_gone_is_left_alone() {
    let (cluster, cloud) = world(node());
    cluster.remove(NODE, "", "a");
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert!(cloud.called().is_empty());
}
