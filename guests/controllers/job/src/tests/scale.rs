//! The number of pods, and creating and deleting them.

use flyball_sdk::prelude::*;

use super::world::*;

/// The numbers of pods that are created and deleted for a job with these pods.
fn steps(job: Object, pods: impl IntoIterator<Item = Object>) -> (usize, usize) {
    let world = World::of([job].into_iter().chain(pods));
    let written = world.sync();
    (count(&written, "create"), count(&written, "delete"))
}

#[test]
fn no_more_pods_run_than_are_left_to_complete() {
    assert_eq!(steps(job(3, 10), []), (3, 0));
    assert_eq!(steps(job(3, 2), []), (2, 0));
    assert_eq!(steps(job(3, 3), [pod("a").succeeded(), pod("b")]), (1, 0));
    assert_eq!(
        steps(job(3, 3).with("/status/succeeded", 2), [pod("a"), pod("b")]),
        (0, 1)
    );
    assert_eq!(steps(job(0, 3), [pod("a")]), (0, 1));
    assert_eq!(steps(job(0, 3), []), (0, 0));
    assert_eq!(
        steps(job(1, 5).with("/spec/parallelism", Value::Null), []),
        (1, 0)
    );
}

#[test]
fn without_completions_no_pod_is_created_after_the_first_success() {
    assert_eq!(steps(job(3, None), []), (3, 0));
    assert_eq!(
        steps(job(3, None), [pod("a").succeeded(), pod("b")]),
        (0, 0)
    );
    assert_eq!(steps(job(1, None), [pod("a"), pod("b")]), (0, 1));
}

#[test]
fn surplus_pods_are_deleted_before_any_is_created() {
    let doubled = [pod_of("a", 0), pod_of("b", 0).ready(9)];
    assert_eq!(steps(indexed(3, 3), doubled), (0, 1));
}

#[test]
fn one_reconcile_creates_and_deletes_no_more_than_the_limit() {
    let limit = |objects: Vec<Object>| {
        let world = World::of(objects);
        world
            .cluster
            .set_config("max-pod-create-delete-per-sync", "2");
        world.sync();
        world.counts()
    };
    assert_eq!(limit(vec![job(5, 5)]), [2, 0, 0, 0]);
    assert_eq!(
        limit(vec![job(0, 5), pod("a"), pod("b"), pod("c")]),
        [1, 2, 0, 0]
    );
}

#[test]
fn a_surplus_pod_loses_the_finalizer_is_deleted_and_is_no_failure() {
    let world = World::of([job(1, 5), pod("a").ready(900), pod("b").ready(10)]);
    assert_eq!(
        world.sync(),
        ["patch v1/Pod default/b", "delete v1/Pod default/b", STATUS]
    );
    assert_eq!(
        (world.counts(), world.status()["ready"].as_i64()),
        ([1, 1, 0, 0], Some(1))
    );
    world.reap();
    world.settle();
    assert_eq!(world.counts(), [1, 0, 0, 0]);
}

#[test]
fn a_deletion_has_the_uid_of_the_cached_pod() {
    let world = World::of([job(0, 5), pod("a")]);
    world.sync();
    world.cluster.put(
        pod("a")
            .with("/metadata/uid", "uid-new")
            .with("/metadata/finalizers", json!([]))
            .0,
    );
    world.cluster.fail(
        "delete",
        POD,
        refusal(404, "NotFound", "pods \"a\" not found"),
    );
    world.try_sync().unwrap();
    let deletion = world
        .cluster
        .writes()
        .into_iter()
        .find(|write| write.verb == "delete")
        .unwrap();
    assert_eq!(
        deletion.options,
        json!({"preconditions": {"uid": "uid-new"}})
    );
}

#[test]
fn a_pod_already_deleted_counts_as_removed_without_an_event() {
    let world = World::of([job(0, 5), pod("a").without_finalizer(), pod("b").ready(5)]);
    world
        .cluster
        .fail("delete", POD, refusal(404, "NotFound", "gone"));
    world
        .cluster
        .fail("patch", POD, refusal(404, "NotFound", "gone"));
    world.sync();
    assert_eq!(
        (
            world.counts()[..2].to_vec(),
            world.status()["ready"].as_i64()
        ),
        (vec![0, 2], Some(0))
    );
    assert!(world.cluster.events().is_empty());
}

#[test]
fn creation_starts_slowly_and_stops_at_the_first_error() {
    let world = World::of([job(10, 10)]);
    let quota = "pods \"work-\" is forbidden: exceeded quota: q";
    // The rounds have 1, 2 and 4 pods; the second of the third round fails.
    world
        .cluster
        .fail_nth("create", POD, 5, refusal(403, "Forbidden", quota));
    assert_eq!(world.try_sync(), Err(format!("{quota} (403 Forbidden)")));
    assert_eq!(count(&world.cluster.written(), "create v1/Pod"), 7);
    assert_eq!(world.counts()[0], 6);
    let events = world.cluster.events();
    assert_eq!(
        count(&events, "Normal SuccessfulCreate Created pod: work-"),
        6
    );
    assert_eq!(
        events[4],
        format!("Warning FailedCreate Error creating: {quota}")
    );
    world.settle();
    assert_eq!(world.counts()[0], 10);
}

#[test]
fn a_terminating_namespace_gets_no_pods_and_no_error_is_reported() {
    let namespace = Object(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"},
                                  "status": {"phase": "Terminating"}}),
    );
    let world = World::of([namespace, job(5, 5)]);
    assert_eq!(
        (world.try_sync(), world.counts()[0]),
        (Ok(Outcome::Done), 0)
    );
    assert_eq!(count(&world.cluster.written(), "create v1/Pod"), 1);
    assert!(world.cluster.events().is_empty());
    assert_eq!(world.try_sync(), Ok(Outcome::Done));
    assert_eq!(count(&world.cluster.written(), "create v1/Pod"), 0);
}

#[test]
fn a_status_error_takes_precedence_over_a_pod_error() {
    let world = World::of([job(1, 1)]);
    world
        .cluster
        .fail("create", POD, refusal(403, "Forbidden", "quota"));
    world.cluster.fail(
        "update",
        "batch/v1/Job/status",
        refusal(409, "Conflict", "modified"),
    );
    assert!(world.try_sync().unwrap_err().contains("modified"));
}

#[test]
fn events_reference_the_job() {
    let world = World::of([job(1, 1)]);
    world.sync();
    let about = &world.cluster.recorded_events()[0].about;
    assert_eq!(
        (about.kind.as_str(), about.name.as_str(), about.uid.as_str()),
        (JOB, "work", "uid-work")
    );
}
