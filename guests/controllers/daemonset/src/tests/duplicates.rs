//! Nodes with pods that they should not have, or with too many.

use flyball_sdk::prelude::*;

use super::world::*;

fn created_at(mut pod: Value, second: u32) -> Value {
    pod["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:{second:02}Z").into();
    pod
}

/// The names of the pods that a reconcile deletes.
fn deleted(world: &World) -> Vec<String> {
    let (outcome, writes) = world.try_sync();
    outcome.unwrap();
    let deletions = writes.into_iter().filter(|one| one.verb == "delete");
    deletions.map(|one| one.name).collect()
}

#[test]
fn of_several_pods_on_a_node_the_oldest_is_kept() {
    for strategy in ["RollingUpdate", "OnDelete"] {
        let world = World::of(
            set_with([("/spec/updateStrategy/type", json!(strategy))]),
            1,
        )
        .with([
            created_at(pod("a", "n0"), 3),
            created_at(pod("b", "n0"), 1),
            created_at(pod("c", "n0"), 2),
        ]);
        assert_eq!(deleted(&world), ["c", "a"]);
    }
}

#[test]
fn a_scheduled_pod_is_kept_before_an_older_one_that_is_not() {
    let world = World::of(set(), 1).with([
        created_at(unscheduled("older", "n0"), 1),
        created_at(pod("younger", "n0"), 2),
    ]);
    assert_eq!(deleted(&world), ["older"]);
}

#[test]
fn of_pods_of_the_same_age_the_first_by_name_is_kept() {
    let world =
        World::of(set(), 1).with([created_at(pod("b", "n0"), 1), created_at(pod("a", "n0"), 1)]);
    assert_eq!(deleted(&world), ["b"]);
}

#[test]
fn a_pod_is_not_deleted_twice_and_its_node_waits_for_its_end() {
    let mut leaving = pod("leaving", "n0");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    let world = World::of(set(), 1).with([leaving]);
    assert_eq!(world.sync(), (0, 0));
    world.cluster.remove(POD, "default", "leaving");
    assert_eq!(world.sync(), (1, 0));
}

#[test]
fn a_pod_that_has_ended_and_is_being_deleted_does_not_hold_its_node() {
    for phase in ["Succeeded", "Failed"] {
        let mut leaving = pod("leaving", "n0");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
        leaving["status"]["phase"] = phase.into();
        let world = World::of(set(), 1).with([leaving]);
        assert_eq!(world.sync(), (1, 0));
    }
}

#[test]
fn pods_on_nodes_that_do_not_suit_are_deleted() {
    let world = World::of(
        set_with([(&of_pods("nodeSelector"), json!({"name": "n0"}))]),
        2,
    )
    .with([
        pod("right", "n0"),
        pod("wrong", "n1"),
        unscheduled("wrong-too", "n1"),
    ]);
    assert_eq!(deleted(&world), ["wrong", "wrong-too"]);
}

#[test]
fn a_noschedule_taint_leaves_pods_alone_and_a_noexecute_taint_does_not() {
    for (effect, expected) in [("NoSchedule", (0, 0)), ("NoExecute", (0, 1))] {
        let world = World::of(set(), 1).with([pod("p", "n0")]);
        let taints = json!([{"key": "k", "value": "v", "effect": effect}]);
        world
            .cluster
            .edit(NODE, "", "n0", |node| node["spec"]["taints"] = taints);
        assert_eq!(world.sync(), expected);
    }
}

#[test]
fn duplicates_on_a_node_with_a_noschedule_taint_are_deleted() {
    let world =
        World::of(set(), 1).with([created_at(pod("a", "n0"), 1), created_at(pod("b", "n0"), 2)]);
    let taints = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    world
        .cluster
        .edit(NODE, "", "n0", |node| node["spec"]["taints"] = taints);
    assert_eq!(deleted(&world), ["b"]);
}

#[test]
fn unscheduled_pods_of_nodes_that_do_not_exist_are_deleted_and_scheduled_ones_are_not() {
    for strategy in ["RollingUpdate", "OnDelete"] {
        let world = World::of(
            set_with([("/spec/updateStrategy/type", json!(strategy))]),
            1,
        )
        .with([
            pod("p0", "n0"),
            pod("scheduled", "gone"),
            unscheduled("stranded", "gone"),
        ]);
        assert_eq!(deleted(&world), ["stranded"]);
    }
}

#[test]
fn a_stranded_pod_that_a_finalizer_holds_is_deleted_once() {
    let mut stranded = unscheduled("stranded", "gone");
    stranded["metadata"]["finalizers"] = json!(["example.com/f"]);
    let world = World::of(set(), 0).with([stranded]);
    assert_eq!([world.sync(), world.sync()], [(0, 1), (0, 0)]);
}

#[test]
fn a_pod_that_names_no_node_or_several_is_left_alone() {
    let mut aimless = unscheduled("aimless", "n0");
    aimless["spec"] = json!({});
    let mut ambiguous = unscheduled("ambiguous", "n0");
    let fields = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values";
    *ambiguous.pointer_mut(fields).unwrap() = json!(["n0", "n1"]);
    let world = World::of(set(), 0).with([aimless, ambiguous]);
    assert_eq!(world.sync(), (0, 0));
    world.cluster.put(node("n0"));
    assert_eq!(world.sync(), (1, 0));
}

#[test]
fn an_unscheduled_pod_counts_for_the_node_that_it_is_meant_for() {
    let world = World::of(set(), 1).with([unscheduled("p", "n0")]);
    assert_eq!(world.sync(), (0, 0));
}

#[test]
fn other_terms_and_fields_do_not_name_the_node() {
    let mut meant = unscheduled("p", "n0");
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let name = |key: &str, operator: &str, node: &str| json!({"key": key, "operator": operator, "values": [node]});
    *meant.pointer_mut(terms).unwrap() = json!([
        {"matchExpressions": [name("metadata.name", "In", "n2")]},
        {"matchFields": [name("metadata.uid", "In", "n2"), name("metadata.name", "NotIn", "n2")]},
        {"matchFields": [name("metadata.name", "In", "n1")]},
    ]);
    let world = World::of(set(), 3).with([meant]);
    world.sync();
    let mut created: Vec<String> = world
        .pods()
        .iter()
        .filter(|pod| pod["metadata"]["name"] != "p")
        .map(target)
        .collect();
    created.sort();
    assert_eq!(created, ["n0", "n2"]);
}
