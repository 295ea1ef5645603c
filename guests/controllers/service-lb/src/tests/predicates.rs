//! The nodes that load balancers send traffic to.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::view;

use super::world::*;
use crate::nodes::{NodeSet, Row};

fn is_available(pointer: &str, value: Value) -> bool {
    view::<Row>(with(node("a"), pointer, value)).is_available()
}

#[test]
fn deleted_excluded_and_tainted_nodes_get_no_traffic() {
    assert!(view::<Row>(node("a")).is_available());
    assert!(!is_available(
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z")
    ));
    let taint = |key: &str| json!([{"key": "other"}, {"key": key, "effect": "NoSchedule"}]);
    assert!(!is_available(
        "/spec/taints",
        taint("ToBeDeletedByClusterAutoscaler")
    ));
    assert!(is_available(
        "/spec/taints",
        taint("node.kubernetes.io/unreachable")
    ));
}

#[test]
fn a_node_that_is_not_ready_gets_traffic() {
    let conditions = json!([{"type": "Ready", "status": "False"}]);
    assert!(is_available("/status/conditions", conditions));
}

#[test]
fn the_label_excludes_a_node_unless_its_value_is_false() {
    let label = |value: &str| {
        let labels = json!({"node.kubernetes.io/exclude-from-external-load-balancers": value});
        is_available("/metadata/labels", labels)
    };
    for value in ["0", "f", "F", "false", "FALSE", "False"] {
        assert!(label(value), "{value}");
    }
    for value in ["", "1", "t", "true", "True", "fALSE", "no", "excluded"] {
        assert!(!label(value), "{value}");
    }
}

fn rows(names: impl IntoIterator<Item = String>) -> Vec<Row> {
    names.into_iter().map(|name| view(node(&name))).collect()
}

#[test]
fn sets_differ_by_names_and_provider_ids_alone() {
    let digest = |nodes: &[Value]| {
        let rows: Vec<Row> = nodes.iter().cloned().map(view).collect();
        NodeSet::of(&rows).digest()
    };
    let both = digest(&[node("a"), node("b")]);
    assert_eq!(
        both,
        digest(&[with(node("a"), "/metadata/uid", "other"), node("b")])
    );
    assert_ne!(both, digest(&[node("a")]));
    assert_ne!(both, digest(&[node("a"), node("c")]));
    assert_ne!(
        both,
        digest(&[with(node("a"), "/spec/providerID", "other"), node("b")])
    );
    assert_ne!(both, digest(&[]));
}

#[test]
fn an_event_names_twenty_nodes_at_most() {
    let name = |number: usize| format!("node-{number:02}");
    assert_eq!(NodeSet::of(&[]).summary(), "[]");
    assert_eq!(
        NodeSet::of(&rows((0..2).map(name))).summary(),
        "[node-00 node-01]"
    );
    let twenty = NodeSet::of(&rows((0..20).map(name))).summary();
    assert!(twenty.ends_with(" node-19]"), "{twenty}");
    let more = NodeSet::of(&rows((0..23).map(name))).summary();
    assert!(more.ends_with(" node-19 <3 more>]"), "{more}");
}
