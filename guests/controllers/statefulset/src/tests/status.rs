//! Writes of the status.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{refusal, set_at};

use super::world::*;
use crate::views::StatefulSet;

fn statuses(world: &World) -> usize {
    let is_status = |line: &&String| line.starts_with(STATUS);
    world.0.written().iter().filter(is_status).count()
}

#[test]
fn an_unchanged_status_is_not_written() {
    let world = World::with(set(1));
    world.settle();
    world.reconcile().unwrap();
    assert_eq!(statuses(&world), 0);
}

#[test]
fn a_new_generation_is_written_even_if_nothing_else_changes() {
    let world = World::with(set(1));
    world.settle();
    world.edit("/spec/revisionHistoryLimit", 5);
    world.reconcile().unwrap();
    assert_eq!(statuses(&world), 1);
    assert_eq!(world.status()["observedGeneration"], 2);
}

#[test]
fn the_status_is_corrected() {
    let world = World::with(set(1));
    world.settle();
    world.0.edit(StatefulSet::KIND, "default", "web", |set| {
        set_at(set, "/status/readyReplicas", 7);
    });
    world.reconcile().unwrap();
    assert_eq!(world.counts(), [1; 5]);
}

#[test]
fn a_status_is_written_on_the_newest_version_after_a_conflict() {
    let world = World::with(set(1));
    let status = format!("{}/status", StatefulSet::KIND);
    world.0.fail("update", &status, refusal(409, "Conflict"));
    world.reconcile().unwrap();
    assert_eq!(world.status()["observedGeneration"], 1);
    assert_eq!(statuses(&world), 2);
}

#[test]
fn the_status_of_a_set_that_was_replaced_is_not_written() {
    let world = World::with(set(1));
    let mut live = world.0.object(StatefulSet::KIND, "default", "web").unwrap();
    set_at(&mut live, "/metadata/uid", "uid-other");
    world.0.put_live(live);
    let status = format!("{}/status", StatefulSet::KIND);
    world.0.fail("update", &status, refusal(409, "Conflict"));
    assert!(world.fail().contains("Conflict"));
    assert_eq!(statuses(&world), 1);
}

#[test]
fn other_failures_of_writing_the_status_are_retried_later() {
    let world = World::with(set(1));
    let status = format!("{}/status", StatefulSet::KIND);
    world
        .0
        .fail("update", &status, refusal(500, "InternalError"));
    assert!(world.fail().contains("InternalError"));
    assert_eq!(statuses(&world), 1);
}

#[test]
fn terminating_pods_count_but_not_for_a_revision() {
    let world = World::with(set(2));
    world.settle();
    world.terminate("web-1");
    world.step();
    assert_eq!(world.counts(), [2, 2, 2, 1, 1]);
}

#[test]
fn condemned_pods_count() {
    let world = World::with(set(3));
    world.settle();
    world.edit("/spec/replicas", 1);
    world.terminate("web-2");
    world.step();
    assert_eq!(world.counts(), [3, 3, 3, 2, 2]);
}

#[test]
fn conditions_of_others_are_kept() {
    let mine = json!([{"type": "Mine", "status": "True"}]);
    let world = World::with(set(1).with("/status/conditions", mine.clone()));
    world.settle();
    assert_eq!(world.status()["conditions"], mine);
    assert_eq!(world.counts(), [1; 5]);
}

#[test]
fn in_kubernetes_1_36_the_status_has_no_other_fields_than_the_controllers() {
    let world = World::with(set(1).with(
        "/status/conditions",
        json!([{"type": "Mine", "status": "True"}]),
    ));
    world.0.set_config("emulated-version", "1.36");
    world.settle();
    let mut fields: Vec<String> = world
        .status()
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "availableReplicas",
            "collisionCount",
            "currentReplicas",
            "currentRevision",
            "observedGeneration",
            "readyReplicas",
            "replicas",
            "updateRevision",
            "updatedReplicas"
        ]
    );
}
