//! Pods are deleted first, and their termination is waited for.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

fn seconds(seconds: u64) -> Outcome {
    Outcome::RequeueAfter(Duration::from_secs(seconds))
}

#[test]
fn nothing_else_is_deleted_while_a_pod_remains() {
    let world = World::of([running("web", 30), object(MAP, "settings")]);
    assert_eq!(world.sync(), seconds(16));
    assert_eq!(
        world.cluster.written(),
        ["deletecollection v1/Pod team", UPDATE_STATUS]
    );
    assert!(world.has(MAP, "settings"));
    assert_eq!(
        world.true_conditions(),
        [
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances"
        ]
    );

    world.cluster.remove(POD, "team", "web");
    assert_eq!(world.sync(), Outcome::Done);
    let deletes: Vec<String> = world.cluster.written();
    assert_eq!(
        deletes,
        [
            "deletecollection v1/Pod team",
            "deletecollection v1/ConfigMap team",
            "deletecollection apps/v1/Deployment team",
            UPDATE_STATUS,
            FINALIZE,
        ]
    );
    assert!(!world.has(MAP, "settings") && world.namespace().is_none());
}

#[test]
fn pods_deleted_at_once_cause_no_delay() {
    let world = World::of([object(POD, "unscheduled"), object(MAP, "settings")]);
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.namespace().is_none());
}

#[test]
fn the_longest_grace_period_of_a_pod_that_has_not_ended_is_waited_for() {
    let mut ended = [running("done", 600), running("broken", 600)];
    ended[0]["status"]["phase"] = "Succeeded".into();
    ended[1]["status"]["phase"] = "Failed".into();
    let mut unset = running("unset", 0);
    unset["spec"]
        .as_object_mut()
        .unwrap()
        .remove("terminationGracePeriodSeconds");
    let world = World::of(ended.into_iter().chain([
        running("a", 7),
        running("b", 101),
        running("c", 30),
        unset,
    ]));
    assert_eq!(world.sync(), seconds(101 / 2 + 1));
}

#[test]
fn a_grace_period_beyond_64_bits_of_nanoseconds_has_passed() {
    let world = World::of([running("forever", i64::MAX)]);
    let expected = "unexpected items still remain in namespace: team for gvr: /v1, Resource=pods";
    assert_eq!(world.fail(), expected);
}

#[test]
fn once_the_grace_period_has_passed_a_pod_that_remains_is_a_failure() {
    let world = World::of([running("stuck", 30), object(MAP, "settings")]);
    world.cluster.advance(Duration::from_secs(29));
    assert_eq!(world.sync(), seconds(16));
    world.cluster.advance(Duration::from_secs(1));
    let expected = "unexpected items still remain in namespace: team for gvr: /v1, Resource=pods";
    assert_eq!(world.fail(), expected);
    assert_eq!(
        world.true_conditions(),
        [
            format!(
                "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 \
                 remaining: {expected}"
            ),
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource \
             instances"
                .to_owned(),
        ]
    );
    assert!(world.has(MAP, "settings"));
}

#[test]
fn a_pod_with_a_finalizer_is_waited_for_as_other_objects_are() {
    let world = World::of([
        held(POD, "job", &["batch.kubernetes.io/job-tracking"]),
        object(MAP, "settings"),
    ]);
    assert_eq!(world.sync(), seconds(8));
    assert!(world.has(MAP, "settings"));
}

#[test]
fn pods_that_cannot_be_listed_are_not_deleted_but_other_objects_are() {
    let world = World::of([object(POD, "web"), object(MAP, "settings")]);
    world
        .cluster
        .fail("list", POD, refusal(500, "InternalError"));
    assert_eq!(world.fail(), "the test refuses this: InternalError");
    assert!(world.has(POD, "web") && !world.has(MAP, "settings"));
    assert_eq!(
        world.namespace().unwrap()["spec"]["finalizers"],
        json!(["kubernetes"])
    );
}
