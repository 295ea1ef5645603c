//! `NoExecute` taints.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::{LIMITERS, MONITOR};

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
    assert_eq!(no_execute(&cluster, "a"), ["not-ready"]);
    assert_eq!(no_execute(&cluster, "b"), ["unreachable"]);
    assert_eq!(no_execute(&cluster, "c"), ["not-ready"]);
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
fn a_taint_that_can_not_be_added_is_added_later_without_another_turn() {
    let cluster = cluster([node("a", "False"), node("b", "False")]);
    cluster.fail("patch", NODE, refusal(409, "Conflict"));
    let next = Outcome::RequeueAfter(seconds(10));
    assert_eq!(turn(&cluster, "z").unwrap(), next);
    assert!(no_execute(&cluster, "a").is_empty());
    assert_eq!(turn(&cluster, "z").unwrap(), next);
    assert_eq!(no_execute(&cluster, "a"), ["not-ready"]);
    assert!(no_execute(&cluster, "b").is_empty());
}

#[test]
fn both_taints_of_a_node_that_is_not_ready_are_one_write() {
    let cluster = cluster([node("a", "False")]);
    turn(&cluster, "z").unwrap();
    assert_eq!(cluster.written(), ["patch v1/Node a"]);
    assert_eq!(
        taints(&cluster, "a"),
        ["not-ready NoExecute", "not-ready NoSchedule"]
    );
    changed_node(&cluster, "a").unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn nodes_and_zones_are_woken_after_the_call_that_decides_about_them() {
    let cluster = Cluster::with([
        node("a", "True"),
        node("b", "False"),
        tainted(node("c", "True"), &["not-ready"]),
    ]);
    let at_once = Outcome::RequeueAfter(seconds(0));
    assert_eq!(of(&cluster, MONITOR, "all").unwrap(), at_once);
    assert!(enqueued(&cluster).is_empty());
    assert_eq!(of(&cluster, MONITOR, "all").unwrap(), Outcome::Done);
    assert_eq!(
        enqueued(&cluster),
        [
            "node_lifecycle_controller c",
            "node_lifecycle_controller_zones :z"
        ]
    );
    assert_eq!(of(&cluster, LIMITERS, ":z").unwrap(), at_once);
    assert!(enqueued(&cluster).is_empty());
    of(&cluster, LIMITERS, ":z").unwrap();
    assert_eq!(enqueued(&cluster), ["node_lifecycle_controller b"]);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_tick_that_comes_before_the_nodes_are_woken_is_a_pass() {
    let cluster = cluster([]);
    cluster.put(tainted(node("a", "True"), &["not-ready"]));
    cluster.advance(seconds(5));
    of(&cluster, MONITOR, "all").unwrap();
    cluster.put(tainted(node("b", "True"), &["not-ready"]));
    cluster.advance(seconds(5));
    pass(&cluster);
    for name in ["a", "b"] {
        assert!(no_execute(&cluster, name).is_empty(), "{name}");
    }
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
    assert_eq!(no_execute(&cluster, "a"), ["unreachable"]);
    assert_eq!(no_execute(&cluster, "b"), ["not-ready"]);
    assert_eq!(no_execute(&cluster, "c"), ["not-ready"]);
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
    assert_eq!(no_execute(&cluster, "a"), ["custom"]);
}

#[test]
fn a_status_that_no_kubelet_reports_changes_no_taint() {
    let cluster = cluster([tainted(node("a", "Perhaps"), &["unreachable", "not-ready"])]);
    pass_for(&cluster, 5);
    assert!(cluster.written().is_empty());
}

#[test]
fn a_taint_that_can_not_be_removed_is_removed_in_the_next_pass() {
    let cluster = cluster([node("a", "True")]);
    cluster.edit(NODE, "", "a", |node| {
        node["spec"]["taints"] = json!([taint("not-ready")])
    });
    cluster.fail("patch", NODE, refusal(409, "Conflict"));
    pass_for(&cluster, 5);
    assert_eq!(no_execute(&cluster, "a"), ["not-ready"]);
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
