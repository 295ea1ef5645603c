//! The namespace's conditions, and when they are written.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;
use crate::conditions;
use crate::content::Content;
use crate::kinds::Kinds;

fn transitions(world: &World) -> Vec<Value> {
    let namespace = world.namespace().unwrap();
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .map(|condition| condition["lastTransitionTime"].clone())
        .collect()
}

#[test]
fn all_five_conditions_are_written_including_false_ones() {
    let world = World::of([held(MAP, "a", &["example.com/x"])]);
    world.sync();
    assert_eq!(
        world.conditions(),
        [
            "NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully \
             parsed",
            "NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on \
             finalization",
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource \
             instances",
            "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers \
             remaining: example.com/x in 1 resource instances",
        ]
    );
    let all = conditions::of(&Kinds::default(), &Content::default());
    let good: Vec<String> = all
        .iter()
        .skip(3)
        .map(|one| format!("{} {}: {}", one.status, one.reason, one.message))
        .collect();
    assert_eq!(
        good,
        [
            "False ContentRemoved: All content successfully removed",
            "False ContentHasNoFinalizers: All content-preserving finalizers finished",
        ]
    );
}

#[test]
fn they_are_written_only_if_one_changes() {
    let world = World::of([
        held(MAP, "a", &["example.com/x"]),
        held(MAP, "b", &["example.com/x"]),
    ]);
    let told = || {
        world
            .cluster
            .written()
            .iter()
            .filter(|write| *write == UPDATE_STATUS)
            .count()
    };
    world.sync();
    assert_eq!(told(), 1);
    world.cluster.advance(Duration::from_secs(8));
    world.sync();
    assert_eq!(told(), 0);
    let before = transitions(&world);
    world.cluster.remove(MAP, "team", "b");
    world.sync();
    assert_eq!(
        (told(), transitions(&world)),
        (1, before),
        "a changed message is not a transition"
    );
}

#[test]
fn a_change_from_true_to_false_is_a_transition() {
    let world = World::of([held(MAP, "a", &["example.com/x"])]);
    world.cluster.fail(
        "deletecollection",
        DEPLOYMENT,
        refusal(500, "InternalError"),
    );
    world.fail();
    world.cluster.advance(Duration::from_secs(8));
    world.sync();
    let [start, later] = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:08Z"].map(Value::from);
    assert_eq!(
        transitions(&world),
        [start.clone(), start.clone(), later, start.clone(), start]
    );
}

#[test]
fn conditions_of_other_controllers_are_kept() {
    let world = World::of([held(MAP, "a", &["example.com/x"])]);
    let mut namespace = namespace();
    namespace["status"]["conditions"] =
        json!([{"type": "Theirs", "status": "True", "reason": "R", "message": "m"}]);
    world.cluster.put(namespace);
    world.sync();
    assert_eq!(world.conditions().len(), 6);
    assert_eq!(world.conditions()[0], "Theirs True R: m");
    assert_eq!(world.namespace().unwrap()["status"]["phase"], "Terminating");
}

#[test]
fn a_failed_write_of_conditions_does_not_stop_the_deletion() {
    for (status, reason) in [(409, "Conflict"), (500, "InternalError")] {
        let world = World::of([object(MAP, "settings")]);
        world
            .cluster
            .fail("update", "v1/Namespace/status", refusal(status, reason));
        assert_eq!(world.sync(), Outcome::Done);
        assert!(world.namespace().is_none());
        let lines = world.cluster.logged();
        assert!(
            lines
                .iter()
                .any(|(_, line)| line.contains("the conditions were not written")),
            "{lines:?}"
        );
    }
}

#[test]
fn failures_are_reported_in_sorted_order() {
    let message = |failures: &[&str]| {
        let failures = failures.iter().map(|&failure| failure.to_owned()).collect();
        conditions::of(
            &Kinds::default(),
            &Content {
                failures,
                ..Content::default()
            },
        )[2]
        .message
        .clone()
    };
    assert_eq!(
        message(&["b", "a"]),
        "Failed to delete all resource types, 2 remaining: a, b"
    );
    assert_eq!(message(&["a", "b"]), message(&["b", "a"]));
}
