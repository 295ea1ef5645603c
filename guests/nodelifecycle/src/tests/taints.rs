//! `NoExecute` taints.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

fn cluster(nodes: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(nodes);
    for number in 0..5 {
        cluster.put(node(&format!("fine-{number}"), "True"));
    }
    pass(&cluster);
    cluster
}

#[test]
fn nodes_of_a_zone_get_their_taint_one_after_another() {
    let cluster = cluster([node("a", "False"), node("b", "Unknown"), node("c", "False")]);
    assert_eq!(enqueued(&cluster), ["node_lifecycle_controller_zones :z"]);
    let next = |time| Outcome::RequeueAfter(seconds(time));
    assert_eq!(turn(&cluster, "z").unwrap(), next(10));
    assert_eq!(cluster.written(), ["patch v1/Node a"]);
    cluster.advance(seconds(4));
    assert_eq!(turn(&cluster, "z").unwrap(), next(6));
    assert!(cluster.written().is_empty());
    cluster.advance(seconds(6));
    assert_eq!(turn(&cluster, "z").unwrap(), next(10));
    cluster.advance(seconds(10));
    assert_eq!(turn(&cluster, "z").unwrap(), Outcome::Done);
    assert_eq!(taints(&cluster, "a"), ["not-ready NoExecute"]);
    assert_eq!(taints(&cluster, "b"), ["unreachable NoExecute"]);
    assert_eq!(taints(&cluster, "c"), ["not-ready NoExecute"]);
    forget(&cluster);
    pass_for(&cluster, 20);
    assert!(cluster.written().is_empty() && enqueued(&cluster).is_empty());
}

#[test]
fn a_node_that_is_ready_again_or_gone_takes_no_turn() {
    let cluster = cluster([node("a", "False"), node("b", "False"), node("c", "False")]);
    forget(&cluster);
    cluster.remove(NODE, "", "a");
    beat(&cluster, "b", "True");
    turn(&cluster, "z").unwrap();
    assert_eq!(cluster.written(), ["patch v1/Node c"]);
}

#[test]
fn a_taint_that_can_not_be_added_takes_no_turn() {
    let cluster = cluster([node("a", "False")]);
    cluster.fail("patch", NODE, refusal(409, "Conflict"));
    turn(&cluster, "z").unwrap_err();
    assert_eq!(turn(&cluster, "z").unwrap(), Outcome::Done);
    assert_eq!(taints(&cluster, "a"), ["not-ready NoExecute"]);
}

#[test]
fn the_patch_of_a_taint_names_the_version_that_was_read() {
    let cluster = cluster([node("a", "False")]);
    let version = cluster.object(NODE, "", "a").unwrap()["metadata"]["resourceVersion"].clone();
    turn(&cluster, "z").unwrap();
    assert_eq!(
        cluster.writes()[0].body["metadata"],
        json!({"resourceVersion": version})
    );
}

#[test]
fn a_node_whose_state_changes_swaps_its_taint_at_once() {
    let cluster = cluster([
        tainted(node("a", "Unknown"), &["not-ready"]),
        tainted(node("b", "False"), &["unreachable"]),
        tainted(node("c", "False"), &["not-ready", "unreachable"]),
        tainted(node("d", "False"), &["not-ready", "custom"]),
    ]);
    let written = ["a", "b", "c"].map(|name| format!("patch v1/Node {name}"));
    assert_eq!(cluster.written(), written);
    assert_eq!(taints(&cluster, "a"), ["unreachable NoExecute"]);
    assert_eq!(taints(&cluster, "b"), ["not-ready NoExecute"]);
    assert_eq!(taints(&cluster, "c"), ["not-ready NoExecute"]);
    pass_for(&cluster, 5);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_node_that_is_ready_again_loses_its_taints() {
    let cluster = cluster([tainted(
        node("a", "True"),
        &["unreachable", "custom", "not-ready"],
    )]);
    assert_eq!(cluster.written(), ["patch v1/Node a"]);
    assert_eq!(taints(&cluster, "a"), ["custom NoExecute"]);
}

#[test]
fn a_taint_that_can_not_be_removed_is_removed_in_the_next_pass() {
    let cluster = cluster([node("a", "True")]);
    cluster.edit(NODE, "", "a", |node| {
        node["spec"]["taints"] = json!([taint("not-ready")])
    });
    cluster.fail("patch", NODE, refusal(409, "Conflict"));
    pass_for(&cluster, 5);
    assert_eq!(taints(&cluster, "a"), ["not-ready NoExecute"]);
    pass_for(&cluster, 5);
    assert!(taints(&cluster, "a").is_empty());
}

#[test]
fn a_new_node_that_has_not_reported_loses_its_taints() {
    let silent = |name: &str| {
        with(
            tainted(node(name, "True"), &["unreachable"]),
            "/status",
            json!({}),
        )
    };
    let cluster = cluster([]);
    cluster.put(silent("new"));
    forget(&cluster);
    pass_for(&cluster, 5);
    assert_eq!(cluster.written(), ["patch v1/Node new"]);
    cluster.edit(NODE, "", "new", |node| {
        node["spec"]["taints"] = json!([taint("unreachable")])
    });
    pass_for(&cluster, 5);
    assert!(cluster.written().is_empty());
}

#[test]
fn tainted_nodes_that_are_found_after_a_restart_are_left_alone() {
    let cluster = cluster([
        tainted(node("a", "Unknown"), &["unreachable"]),
        tainted(node("b", "False"), &["not-ready"]),
    ]);
    assert!(cluster.written().is_empty() && enqueued(&cluster).is_empty());
    turn(&cluster, "z").unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_zone_without_waiting_nodes_has_no_turns() {
    let cluster = cluster([node("a", "False")]);
    beat(&cluster, "a", "True");
    pass_for(&cluster, 5);
    assert_eq!(turn(&cluster, "z").unwrap(), Outcome::Done);
    assert_eq!(turn(&cluster, "never-seen").unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty());
}
