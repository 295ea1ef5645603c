//! Adopting and releasing pods.

use flyball_ownership::Ownership;
use flyball_sdk::prelude::*;

use super::world::*;
use crate::pods::FINALIZER;

#[test]
fn orphans_are_adopted_with_owner_and_finalizer_after_a_live_check() {
    let foreign = orphan("foreign").with("/metadata/labels", json!({"job": "other"}));
    let world = World::of([
        job(2, 2),
        orphan("a"),
        orphan("b"),
        foreign,
        orphan("going").deleting(1),
    ]);
    assert_eq!(
        world.sync(),
        ["patch v1/Pod default/a", "patch v1/Pod default/b", STATUS]
    );
    let metadata = &world.pod("a")["metadata"];
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "uid-work", "controller": true,
                        "blockOwnerDeletion": true}]);
    assert_eq!(
        (&metadata["ownerReferences"], &metadata["finalizers"]),
        (&owner, &json!([FINALIZER]))
    );
    assert_eq!(world.counts()[0], 2);
}

#[test]
fn an_adopted_ended_pod_is_counted() {
    let world = World::of([job(1, 1), orphan("a").succeeded()]);
    world.sync();
    assert_eq!(
        (
            world.counts()[2],
            world.has_finalizer("a"),
            world.conditions().len()
        ),
        (1, false, 2)
    );
}

#[test]
fn nothing_is_adopted_if_a_live_read_finds_the_job_deleted_replaced_or_being_deleted() {
    let lost = pod("lost").with("/metadata/labels", json!({"job": "other"}));
    let going = job(1, 1).with("/metadata/deletionTimestamp", ago(1));
    for (live, problem) in [
        (None, "was deleted"),
        (Some(job(1, 1).with("/metadata/uid", "uid-new")), "another"),
        (Some(going), "being deleted"),
    ] {
        let world = World::of([job(1, 1), orphan("a"), lost.clone()]);
        match live {
            Some(live) => world.cluster.put_live(live.0),
            None => world.cluster.remove_live(JOB, "default", "work"),
        }
        let error = world.try_sync().unwrap_err();
        assert!(error.contains(problem), "{error}");
        // No pod is created instead, but pods that do not match are still released.
        assert_eq!(world.cluster.written(), ["patch v1/Pod default/lost"]);
    }
}

#[test]
fn a_pod_that_is_in_both_lists_is_claimed_once() {
    let job = job(1, 1).job();
    let claims = Ownership::of(
        &job.meta,
        &job.selector,
        pods([pod("a")]),
        pods([orphan("a"), orphan("b")]),
    );
    assert_eq!(
        (names(&claims.kept), names(&claims.adopted)),
        (vec!["a"], vec!["b"])
    );
}

#[test]
fn the_live_check_is_made_only_for_orphans() {
    let world = World::of([job(1, 1), pod("a")]);
    world
        .cluster
        .fail("get", JOB, refusal(500, "InternalError", "broken"));
    world.settle();
    world.cluster.put(orphan("b").0);
    assert!(
        world
            .try_sync()
            .unwrap_err()
            .contains("adopting 1 pods: broken")
    );
}

#[test]
fn pods_that_no_longer_match_are_released_lose_the_finalizer_and_are_replaced() {
    let world = World::of([
        job(1, 1),
        pod("a").with("/metadata/labels", json!({"debug": "yes"})),
    ]);
    let written = world.sync();
    assert_eq!(
        (written[0].as_str(), count(&written, "create v1/Pod")),
        ("patch v1/Pod default/a", 1)
    );
    let metadata = &world.pod("a")["metadata"];
    assert_eq!(
        (&metadata["ownerReferences"], &metadata["finalizers"]),
        (&json!([]), &json!([]))
    );
}

#[test]
fn errors_are_reported_except_for_pods_that_are_deleted_or_have_no_owner() {
    let lost = || pod("lost").with("/metadata/labels", json!({"job": "other"}));
    let answer = |object: Object, status: u16, reason: &str| {
        let world = World::of([job(1, 1), object]);
        world
            .cluster
            .fail("patch", POD, refusal(status, reason, "broken"));
        world.try_sync().map(|_| world.names().len())
    };
    assert_eq!(answer(lost(), 404, "NotFound"), Ok(2));
    assert_eq!(answer(lost(), 422, "Invalid"), Ok(2));
    assert!(
        answer(lost(), 500, "InternalError")
            .unwrap_err()
            .starts_with("releasing pod default/lost: broken")
    );
    assert_eq!(answer(orphan("a"), 404, "NotFound"), Ok(2));
    assert!(
        answer(orphan("a"), 422, "Invalid")
            .unwrap_err()
            .starts_with("adopting pod default/a: broken")
    );
}

#[test]
fn a_job_that_is_being_deleted_adopts_and_releases_nothing() {
    let going = job(1, 1)
        .with("/metadata/deletionTimestamp", ago(1))
        .with("/metadata/finalizers", json!(["x/y"]));
    let world = World::of([
        going,
        orphan("a"),
        pod("b").with("/metadata/labels", json!({"job": "other"})),
    ]);
    assert_eq!(count(&world.sync(), "patch"), 0);
    assert_eq!(world.counts()[0], 0);
}

#[test]
fn a_pod_of_another_job_is_left_alone() {
    let world = World::of([
        job(1, 1),
        orphan("a")
            .owned_by("uid-other")
            .with_finalizer()
            .succeeded(),
    ]);
    world.settle();
    assert_eq!(
        (world.counts(), world.has_finalizer("a")),
        ([1, 0, 0, 0], true)
    );
}
