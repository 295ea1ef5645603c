//! The status.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

const STATUS: &str = "update apps/v1/DaemonSet/status default/ds";

#[test]
fn new_pods_are_counted_at_once() {
    let world = World::of(set(), 3);
    world.sync();
    assert_eq!(world.counters(), [3, 3, 0, 0, 0, 3, 3]);
    assert_eq!(world.status()["observedGeneration"], 1);
}

#[test]
fn ready_pods_are_counted() {
    let world = World::rolled_out(set(), 3);
    assert_eq!(world.counters(), [3, 3, 0, 3, 3, 3, 0]);
    let name = world.pods()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.edit_pod(&name, |pod| {
        pod["status"]["conditions"] = readiness("False")
    });
    assert_eq!(world.written(), [STATUS]);
    assert_eq!(world.counters(), [3, 3, 0, 2, 2, 3, 1]);
    assert!(world.written().is_empty());
}

#[test]
fn pods_on_nodes_that_may_keep_them_are_misscheduled() {
    let world = World::rolled_out(set(), 2);
    let taints = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    world
        .cluster
        .edit(NODE, "", "n0", |node| node["spec"]["taints"] = taints);
    assert_eq!(world.written(), [STATUS]);
    assert_eq!(world.counters(), [1, 1, 1, 1, 1, 1, 0]);
}

#[test]
fn of_several_pods_on_a_node_the_oldest_is_counted() {
    let mut younger = pod("b", "n0");
    younger["metadata"]["creationTimestamp"] = "2026-01-01T00:00:02Z".into();
    younger["status"]["conditions"] = readiness("True");
    let mut older = pod("a", "n0");
    older["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z".into();
    let world = World::of(set(), 1).with([younger, older]);
    world.sync();
    assert_eq!(world.counters(), [1, 1, 0, 0, 0, 1, 1]);
}

#[test]
fn a_pod_is_updated_by_its_generation_too() {
    let mut old = pod("p", "n0");
    old["metadata"]["labels"]["pod-template-generation"] = "1".into();
    let world = World::of(set(), 1).with([old]);
    assert_eq!(world.sync(), (0, 0));
    assert_eq!(world.counters(), [1, 1, 0, 0, 0, 1, 1]);
}

#[test]
fn pods_are_available_after_the_minimum_time() {
    let world = World::of(set_with([("/spec/minReadySeconds", json!(10))]), 1);
    world.sync();
    world.run_pods();
    world.advance(4);
    let (outcome, _) = world.try_sync();
    assert_eq!(
        outcome.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(6))
    );
    assert_eq!(world.counters(), [1, 1, 0, 1, 0, 1, 1]);
    world.advance(6);
    assert_eq!(world.try_sync().0.unwrap(), Outcome::Done);
    assert_eq!(world.counters(), [1, 1, 0, 1, 1, 1, 0]);
}

#[test]
fn a_ready_pod_without_a_time_is_looked_at_again() {
    let mut ready = pod("p", "n0");
    ready["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let world = World::of(
        set_with([
            ("/spec/minReadySeconds", json!(10)),
            ("/spec/updateStrategy/type", json!("OnDelete")),
        ]),
        1,
    )
    .with([ready]);
    let (outcome, _) = world.try_sync();
    assert_eq!(
        outcome.unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(10))
    );
    assert_eq!(world.counters(), [1, 1, 0, 1, 0, 1, 1]);
}

#[test]
fn an_unchanged_status_is_written_only_for_a_new_generation() {
    let world = World::rolled_out(set(), 1);
    assert!(world.written().is_empty());
    world.edit_set(|set| set["metadata"]["generation"] = json!(2));
    assert_eq!(world.written(), [STATUS]);
    assert_eq!(world.status()["observedGeneration"], 2);
}

#[test]
fn other_fields_of_the_status_are_kept() {
    let status = json!({"collisionCount": 2, "conditions": [{"type": "Other", "status": "True"}]});
    let world = World::of(set_with([("/status", status)]), 0);
    world.sync();
    assert_eq!(world.status()["collisionCount"], 2);
    assert_eq!(world.status()["conditions"][0]["type"], "Other");
}

#[test]
fn a_conflict_is_resolved_on_the_latest_version() {
    let world = World::of(set(), 1);
    world.cluster.fail(
        "update",
        "apps/v1/DaemonSet/status",
        refusal(409, "Conflict"),
    );
    let mut latest = world.cluster.object(SET, "default", "ds").unwrap();
    latest["status"] = json!({"collisionCount": 3});
    latest["metadata"]["generation"] = 5.into();
    world.cluster.put_live(latest);
    world.sync();
    assert_eq!(world.status()["observedGeneration"], 1);
    assert_eq!(world.status()["collisionCount"], 3);
}

#[test]
fn a_second_conflict_is_an_error() {
    let world = World::of(set(), 1);
    for _ in 0..2 {
        world.cluster.fail(
            "update",
            "apps/v1/DaemonSet/status",
            refusal(409, "Conflict"),
        );
    }
    let (outcome, writes) = world.try_sync();
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .starts_with("error storing status for daemon set default/ds")
    );
    assert_eq!(
        writes
            .iter()
            .filter(|one| one.subresource == "status")
            .count(),
        2
    );
}

#[test]
fn the_status_of_another_set_with_the_same_name_is_not_written() {
    let world = World::of(set(), 1);
    world.cluster.fail(
        "update",
        "apps/v1/DaemonSet/status",
        refusal(409, "Conflict"),
    );
    world
        .cluster
        .put_live(set_with([("/metadata/uid", json!("another"))]));
    let (outcome, writes) = world.try_sync();
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .contains("default/ds was deleted")
    );
    assert_eq!(
        writes
            .iter()
            .filter(|one| one.subresource == "status")
            .count(),
        1
    );
}

#[test]
fn an_error_of_the_pods_is_returned_before_one_of_the_status() {
    let world = World::of(set(), 1);
    world.cluster.fail("create", POD, refusal(403, "Forbidden"));
    for _ in 0..2 {
        world.cluster.fail(
            "update",
            "apps/v1/DaemonSet/status",
            refusal(500, "InternalError"),
        );
    }
    assert!(
        world
            .try_sync()
            .0
            .unwrap_err()
            .to_string()
            .contains("Forbidden")
    );
    let logged = world.cluster.logged();
    assert!(
        logged
            .iter()
            .any(|(_, text)| text.starts_with("failed to update status")),
        "{logged:?}"
    );
}
