//! Jobs that have finished or that another controller manages.

use flyball_sdk::prelude::*;

use super::world::*;

#[test]
fn a_finished_job_is_left_alone_but_remaining_finalizers_are_removed() {
    for kind in ["Complete", "Failed"] {
        let conditions = json!([{"type": kind, "status": "True"}]);
        let world = World::of([
            job(3, 3).with("/status/conditions", conditions),
            pod("a").succeeded(),
            pod("b").without_finalizer(),
        ]);
        assert_eq!(world.sync(), ["patch v1/Pod default/a"]);
        assert_eq!(world.sync(), [""; 0]);
    }
}

#[test]
fn a_job_with_a_false_failed_condition_continues() {
    let world = World::of([job(1, 1).with(
        "/status/conditions",
        json!([{"type": "Failed", "status": "False"}]),
    )]);
    assert_eq!(count(&world.sync(), "create v1/Pod"), 1);
}

#[test]
fn a_job_of_another_controller_is_not_touched() {
    let theirs = job(1, 1).with("/spec/managedBy", "kueue.x-k8s.io/multikueue");
    let world = World::of([theirs, pod("a").succeeded()]);
    assert_eq!(world.sync(), [""; 0]);
    let ours = World::of([job(1, 1).with("/spec/managedBy", "kubernetes.io/job-controller")]);
    assert_eq!(count(&ours.sync(), "create v1/Pod"), 1);
}

#[test]
fn an_unknown_completion_mode_is_reported_and_nothing_is_written() {
    let world = World::of([job(1, 1).with("/spec/completionMode", "Sorted")]);
    assert_eq!(world.sync(), [""; 0]);
    let told = "Warning UnknownCompletionMode Skipped Job sync because completion mode is unknown";
    assert_eq!(world.cluster.events(), [told]);
}

#[test]
fn a_deleted_job_needs_nothing() {
    let world = World::of([pod("a")]);
    assert_eq!(
        (world.try_sync(), world.cluster.writes().len()),
        (Ok(Outcome::Done), 0)
    );
}

#[test]
fn a_new_job_of_the_same_name_starts_without_backoff() {
    let world = World::of([
        job(1, 1).with("/metadata/uid", "uid-new"),
        pod("a").succeeded(),
        pod("b").failed(5),
    ]);
    world.settle();
    assert_eq!(world.counts(), [1, 0, 0, 0]);
    assert!(world.has_finalizer("a"));
}
