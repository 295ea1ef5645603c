//! The queue of changed nodes.

use flyball_sdk::prelude::*;

use super::world::*;

const ENQUEUED: [&str; 1] = ["daemonset default/ds"];

#[test]
fn a_node_without_a_pod_enqueues_the_sets_that_should_run_there() {
    let world = World::of(
        set_with([(&of_pods("nodeSelector"), json!({"disk": "ssd"}))]),
        1,
    );
    assert!(world.sync_node("n0").is_empty());
    world.cluster.edit(NODE, "", "n0", |node| {
        node["metadata"]["labels"]["disk"] = "ssd".into()
    });
    assert_eq!(world.sync_node("n0"), ENQUEUED);
}

#[test]
fn the_end_of_a_taint_enqueues() {
    let world = World::of(set(), 1);
    let taints = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    world
        .cluster
        .edit(NODE, "", "n0", |node| node["spec"]["taints"] = taints);
    assert!(world.sync_node("n0").is_empty());
    world
        .cluster
        .edit(NODE, "", "n0", |node| node["spec"]["taints"] = json!([]));
    assert_eq!(world.sync_node("n0"), ENQUEUED);
}

#[test]
fn a_node_that_has_its_pod_enqueues_nothing() {
    let world = World::rolled_out(set(), 1);
    assert!(world.sync_node("n0").is_empty());
}

#[test]
fn a_node_that_must_lose_its_pod_enqueues() {
    let world = World::rolled_out(set(), 1);
    let taints = json!([{"key": "k", "value": "v", "effect": "NoExecute"}]);
    world
        .cluster
        .edit(NODE, "", "n0", |node| node["spec"]["taints"] = taints);
    assert_eq!(world.sync_node("n0"), ENQUEUED);
}

#[test]
fn a_pod_that_may_no_longer_be_misscheduled_enqueues() {
    let world = World::rolled_out(set(), 1);
    world.edit_set(|set| set["status"]["numberMisscheduled"] = json!(1));
    assert_eq!(world.sync_node("n0"), ENQUEUED);
}

#[test]
fn pods_of_other_controllers_and_nodes_do_not_count() {
    let mut other = pod("other", "n0");
    other["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet".into();
    other["metadata"]["ownerReferences"][0]["name"] = "ds".into();
    let world = World::of(set(), 1).with([other, pod("elsewhere", "n1"), orphan("stray", "n0")]);
    assert_eq!(world.sync_node("n0"), ENQUEUED);
}

#[test]
fn every_set_in_every_namespace_is_considered() {
    let mut other = set_with([
        ("/metadata/namespace", json!("kube-system")),
        ("/metadata/uid", json!("other")),
    ]);
    other["metadata"]["name"] = "proxy".into();
    let world = World::of(set(), 1).with([other]);
    assert_eq!(
        world.sync_node("n0"),
        ["daemonset default/ds", "daemonset kube-system/proxy"]
    );
}

#[test]
fn a_node_that_was_deleted_enqueues_nothing() {
    assert!(World::of(set(), 0).sync_node("n0").is_empty());
}
