//! How many pods there should be, and making and deleting them.

use flyball_sdk::prelude::*;

use super::world::*;

/// How many pods are made and deleted for a job with these pods.
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
fn without_a_number_of_completions_nothing_starts_after_the_first_success() {
    assert_eq!(steps(job(3, None), []), (3, 0));
    assert_eq!(
        steps(job(3, None), [pod("a").succeeded(), pod("b")]),
        (0, 0)
    );
    assert_eq!(steps(job(1, None), [pod("a"), pod("b")]), (0, 1));
}

#[test]
fn what_is_too_much_goes_before_anything_is_made() {
    let doubled = [pod_of("a", 0), pod_of("b", 0).ready(9)];
    assert_eq!(steps(indexed(3, 3), doubled), (0, 1));
}

#[test]
fn one_reconcile_makes_and_deletes_no_more_than_the_limit() {
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
fn a_surplus_pod_is_let_go_and_deleted_and_is_no_failure() {
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
fn a_deletion_names_the_pod_that_was_seen() {
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
fn a_pod_that_vanished_before_its_deletion_is_removed_without_an_event() {
    let world = World::of([job(0, 5), pod("a").free(), pod("b").ready(5)]);
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
fn creation_starts_slowly_and_stops_at_the_first_refusal() {
    let world = World::of([job(10, 10)]);
    let quota = "pods \"work-\" is forbidden: exceeded quota: q";
    // The rounds are of 1, 2 and 4; the second of the third round is refused.
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
fn in_a_namespace_that_is_being_deleted_no_pod_is_made_and_nothing_said() {
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
}

#[test]
fn an_error_of_the_status_comes_before_one_of_pods() {
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
fn events_are_about_the_job() {
    let world = World::of([job(1, 1)]);
    world.sync();
    let about = &world.cluster.recorded_events()[0].about;
    assert_eq!(
        (about.kind.as_str(), about.name.as_str(), about.uid.as_str()),
        (JOB, "work", "uid-work")
    );
}
