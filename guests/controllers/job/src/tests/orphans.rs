//! Pods that have the finalizer although no job counts them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::delta;

use super::world::*;
use crate::JobController;
use crate::orphans::QUEUE;

fn reconcile(world: &World, key: &str) -> Result<Outcome, String> {
    world
        .cluster
        .reconcile_request::<JobController>(&Request::new(QUEUE, key))
        .map_err(|error| error.to_string())
}

/// The keys that a change enqueues, each with its queue.
fn route(world: &World, kind: &str, old: Option<&Object>, new: Option<&Object>) -> Vec<String> {
    let value = |object: Option<&Object>| object.map(|object| object.0.clone());
    let delta = delta(kind, value(old).as_ref(), value(new).as_ref());
    let routed = world.cluster.route::<JobController>(&[delta]).unwrap();
    routed
        .iter()
        .map(|routed| format!("{} {}", routed.queue, routed.key))
        .collect()
}

fn finished(kind: &str) -> Object {
    job(1, 1).with(
        "/status/conditions",
        json!([{"type": kind, "status": "True"}]),
    )
}

#[test]
fn a_pod_without_a_job_loses_the_finalizer() {
    let foreign = orphan("foreign").with_finalizer().with(
        "/metadata/ownerReferences",
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "work", "uid": "uid-rs", "controller": true}]),
    );
    let namesake = orphan("namesake").with_finalizer().with(
        "/metadata/ownerReferences",
        json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "work", "uid": "u", "controller": true}]),
    );
    for (object, is_freed) in [
        (orphan("a").with_finalizer(), true),
        (pod("a"), false),
        (orphan("a").with_finalizer().owned_by("uid-gone"), true),
        (foreign, false),
        (namesake, false),
    ] {
        let name = object.0["metadata"]["name"].as_str().unwrap().to_owned();
        let world = World::of([job(1, 1), object.clone()]);
        assert_eq!(
            reconcile(&world, &format!("default/{name}")),
            Ok(Outcome::Done)
        );
        assert_eq!(world.has_finalizer(&name), !is_freed, "{object:?}");
    }
}

#[test]
fn a_pod_of_a_finished_job_loses_the_finalizer_unless_another_controller_manages_the_job() {
    let world = World::of([finished("Failed"), pod("a")]);
    reconcile(&world, "default/a").unwrap();
    assert!(!world.has_finalizer("a"));
    let world = World::of([
        finished("Complete").with("/spec/managedBy", "example.com/theirs"),
        pod("a"),
    ]);
    reconcile(&world, "default/a").unwrap();
    assert!(world.has_finalizer("a"));
}

#[test]
fn a_deleted_pod_or_one_without_the_finalizer_needs_nothing_and_errors_are_retried() {
    let world = World::of([orphan("a"), orphan("b").with_finalizer()]);
    for key in ["default/gone", "default/a"] {
        assert_eq!(reconcile(&world, key), Ok(Outcome::Done));
    }
    assert!(world.cluster.writes().is_empty());
    world
        .cluster
        .fail("patch", POD, refusal(404, "NotFound", "gone"));
    assert_eq!(reconcile(&world, "default/b"), Ok(Outcome::Done));
    world
        .cluster
        .fail("patch", POD, refusal(500, "InternalError", "broken"));
    assert!(
        reconcile(&world, "default/b")
            .unwrap_err()
            .starts_with("removing the finalizer of pod default/b: broken")
    );
}

#[test]
fn a_pod_with_the_finalizer_and_no_controller_is_enqueued() {
    let world = World::of([job(1, 1)]);
    assert_eq!(
        route(&world, POD, None, Some(&orphan("a").with_finalizer())),
        ["job_orphan_pod default/a"]
    );
    assert_eq!(
        route(
            &world,
            POD,
            Some(&pod("a")),
            Some(&orphan("a").with_finalizer())
        ),
        ["job_orphan_pod default/a"]
    );
    assert_eq!(route(&world, POD, None, Some(&orphan("a"))), [""; 0]);
    assert_eq!(
        route(&world, POD, Some(&orphan("a").with_finalizer()), None),
        [""; 0]
    );
}

#[test]
fn a_pod_of_a_missing_or_finished_job_is_enqueued_when_it_is_deleted() {
    let going = pod("a").deleting(1);
    let orphaned = ["job_orphan_pod default/a"];
    assert_eq!(
        route(&World::of([]), POD, Some(&pod("a")), Some(&going)),
        orphaned
    );
    assert_eq!(
        route(
            &World::of([finished("Failed")]),
            POD,
            Some(&pod("a")),
            Some(&going)
        ),
        orphaned
    );
    assert_eq!(
        route(&World::of([job(1, 1)]), POD, Some(&pod("a")), Some(&going)),
        [""; 0]
    );
    // Its job may not be in the cache yet.
    assert_eq!(route(&World::of([]), POD, None, Some(&pod("a"))), [""; 0]);
}

#[test]
fn pods_of_a_deleted_or_replaced_job_are_enqueued() {
    let other = orphan("other").with_finalizer().owned_by("uid-other");
    let world = World::of([pod("a"), pod("b").without_finalizer(), other]);
    assert_eq!(
        route(&world, JOB, Some(&job(1, 1)), None),
        ["job_orphan_pod default/a"]
    );
    let new = job(1, 1).with("/metadata/uid", "uid-new");
    assert_eq!(
        route(&world, JOB, Some(&job(1, 1)), Some(&new)),
        ["job_orphan_pod default/a"]
    );
    assert_eq!(
        route(&world, JOB, Some(&job(1, 1)), Some(&job(2, 1))),
        [""; 0]
    );
}

#[test]
fn changes_count_ended_pods_with_the_finalizer_and_jobs_of_other_controllers() {
    let world = World::of([]);
    route(&world, POD, Some(&pod("a")), Some(&pod("a").succeeded()));
    route(
        &world,
        POD,
        Some(&pod("a").succeeded()),
        Some(&pod("a").succeeded().deleting(1)),
    );
    assert_eq!(
        world.metrics(),
        ["terminated_pods_tracking_finalizer_total add 1"]
    );
    route(
        &world,
        POD,
        Some(&pod("a").succeeded()),
        Some(&pod("a").succeeded().without_finalizer()),
    );
    route(&world, POD, Some(&pod("b").failed(0)), None);
    assert_eq!(
        world.metrics(),
        ["terminated_pods_tracking_finalizer_total delete 2"]
    );

    let theirs = job(1, 1).with("/spec/managedBy", "example.com/theirs");
    route(&world, JOB, None, Some(&theirs));
    route(&world, JOB, Some(&theirs), Some(&theirs));
    route(&world, JOB, None, Some(&job(1, 1)));
    assert_eq!(
        world.metrics(),
        ["jobs_by_external_controller_total example.com/theirs 1"]
    );
}
