//! Backoff limits per index.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::backoff::Record;
use crate::pods::{FAILURES, IGNORED_FAILURES, INDEX};

/// The annotations of the pod created for an index: failures and ignored failures.
fn made(world: &World, index: i64) -> (Value, Value) {
    let prefix = format!("work-{index}-");
    let name = world
        .names()
        .into_iter()
        .find(|name| name.starts_with(&prefix))
        .expect("no pod was created for the index");
    let annotations = &world.pod(&name)["metadata"]["annotations"];
    (
        annotations[FAILURES].clone(),
        annotations[IGNORED_FAILURES].clone(),
    )
}

#[test]
fn a_first_pod_has_no_failures_before_it() {
    let world = World::of([limited(1, 1, 1)]);
    world.sync();
    assert_eq!(made(&world, 0), (json!("0"), Value::Null));
    assert_eq!(world.status()["failedIndexes"], "");
}

#[test]
fn the_last_failed_pod_of_an_index_is_kept_until_its_successor_is_made() {
    let world = World::of([
        limited(2, 2, 3),
        pod_of("a", 0).failed(0).annotated(FAILURES, 1),
        pod_of("b", 1),
    ]);
    // Two failures: 20 s.
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(20))));
    assert_eq!(
        (world.has_finalizer("a"), world.counts()),
        (true, [1, 0, 0, 0])
    );
    // Only the pod stores the number of failures.
    assert_eq!(world.cluster.host().memo().get::<Record>("uid-work"), None);
    world.cluster.advance(seconds(20));
    world.sync();
    assert_eq!(
        (made(&world, 0), world.has_finalizer("a")),
        ((json!("2"), Value::Null), true)
    );
    world.settle();
    assert_eq!(
        (world.has_finalizer("a"), world.counts()),
        (false, [2, 0, 0, 1])
    );
}

#[test]
fn of_several_failed_pods_only_the_last_is_kept() {
    let failed = |name: &str, failures: i32, ago: i64| {
        pod_of(name, 0).failed(ago).annotated(FAILURES, failures)
    };
    let world = World::of([
        limited(1, 1, 9),
        failed("a", 0, 3),
        failed("b", 2, 2),
        failed("c", 1, 1),
    ]);
    world.sync();
    assert_eq!(
        ["a", "b", "c"].map(|name| world.has_finalizer(name)),
        [false, true, false]
    );
    assert_eq!(world.counts()[3], 2);

    // Among pods with the same number of failures, the one that ended last is kept.
    let world = World::of([limited(1, 1, 9), failed("a", 1, 2), failed("b", 1, 5)]);
    world.sync();
    assert_eq!(
        ["a", "b"].map(|name| world.has_finalizer(name)),
        [true, false]
    );
}

#[test]
fn an_index_fails_when_its_limit_is_passed_and_the_others_go_on() {
    let world = World::of([
        limited(2, 3, 1),
        pod_of("a", 0).failed(600).annotated(FAILURES, 1),
        pod_of("b", 1),
    ]);
    world.settle();
    assert_eq!(
        (world.status()["failedIndexes"].as_str(), world.counts()),
        (Some("0"), [2, 0, 0, 1])
    );
    assert_eq!(
        (world.has_finalizer("a"), world.conditions().len()),
        (false, 0)
    );
    // Index 2 is next; index 0 gets no further pod.
    assert_eq!(count(&world.names(), "work-0-"), 0);
    assert_eq!(count(&world.names(), "work-2-"), 1);
}

#[test]
fn a_job_with_failed_indexes_fails_when_all_others_have_succeeded() {
    let world = World::of([limited(2, 2, 0), pod_of("a", 0).failed(600), pod_of("b", 1)]);
    world.settle();
    assert_eq!(world.conditions(), [""; 0]);
    world.end("b", "Succeeded");
    world.settle();
    assert_eq!(
        world.conditions(),
        ["FailureTarget FailedIndexes", "Failed FailedIndexes"]
    );
    let status = world.status();
    assert_eq!(
        (&status["completedIndexes"], &status["failedIndexes"]),
        (&json!("1"), &json!("0"))
    );
    assert_eq!(
        world.cluster.events(),
        ["Warning FailedIndexes Job has failed indexes"]
    );
}

#[test]
fn too_many_failed_indexes_end_the_job() {
    let most = |most: i32| {
        let ended = [pod_of("a", 0).failed(600), pod_of("b", 1).failed(600)];
        let world = World::of(
            [limited(2, 9, 0).with("/spec/maxFailedIndexes", most)]
                .into_iter()
                .chain(ended),
        );
        world.sync();
        world.conditions()
    };
    assert_eq!(
        most(1),
        [
            "FailureTarget MaxFailedIndexesExceeded",
            "Failed MaxFailedIndexesExceeded"
        ]
    );
    assert_eq!(most(2), [""; 0]);
}

#[test]
fn indexes_that_wait_do_not_keep_others_from_starting() {
    let world = World::of([limited(2, 3, 5), pod_of("a", 0).failed(0)]);
    world.sync();
    assert_eq!(
        (
            count(&world.names(), "work-0-"),
            count(&world.names(), "work-1-")
        ),
        (0, 1)
    );
}

#[test]
fn a_job_is_requeued_after_the_shortest_backoff_of_its_indexes() {
    let failed = |name: &str, index: i64, ago: i64| pod_of(name, index).failed(ago);
    let world = World::of([limited(2, 2, 5), failed("a", 0, 2), failed("b", 1, 6)]);
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(4))));
}

#[test]
fn ignored_failures_of_an_index_are_passed_on_separately() {
    let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    let ignoring = limited(1, 1, 1).with("/spec/podFailurePolicy/rules", rules);
    let disrupted = pod_of("a", 0)
        .failed(600)
        .condition("DisruptionTarget")
        .annotated(FAILURES, 1);
    let world = World::of([ignoring, disrupted.annotated(IGNORED_FAILURES, 2)]);
    world.settle();
    assert_eq!(made(&world, 0), (json!("1"), json!("3")));
    assert_eq!(
        (world.status()["failedIndexes"].as_str(), world.counts()[3]),
        (Some(""), 0)
    );
}

#[test]
fn ignored_failures_of_one_index_are_not_passed_to_another() {
    let rules = json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [2]}}]);
    let ignoring = limited(2, 2, 5).with("/spec/podFailurePolicy/rules", rules);
    let world = World::of([
        ignoring,
        pod_of("a", 0).failed(0).exited(2, 600),
        pod_of("b", 1).failed(600),
    ]);
    world.sync();
    assert_eq!(
        (made(&world, 0), made(&world, 1)),
        ((json!("0"), json!("1")), (json!("1"), Value::Null))
    );
}

#[test]
fn a_malformed_failure_count_reads_as_zero() {
    for text in ["x", "-3", "99999999999"] {
        assert_eq!(
            pod_of("a", 0)
                .annotated(FAILURES, text)
                .pod()
                .earlier_failures(),
            0,
            "{text}"
        );
    }
}

#[test]
fn failed_pods_of_settled_indexes_lose_their_finalizer() {
    let ended = [
        pod_of("a", 0).failed(9),
        pod_of("b", 0).succeeded(),
        pod_of("c", 1).failed(9),
        pod_of("d", 1),
    ];
    let world = World::of([limited(2, 2, 5)].into_iter().chain(ended));
    world.sync();
    assert_eq!(
        ["a", "c"].map(|name| world.has_finalizer(name)),
        [false, false]
    );
    assert_eq!(
        (
            world.counts()[3],
            world.pod("c")["metadata"]["annotations"][INDEX].as_str()
        ),
        (2, Some("1"))
    );
}

#[test]
fn a_failed_pod_that_was_counted_fails_no_index() {
    let world = World::of([
        limited(1, 1, 0),
        pod_of("a", 0).failed(600).without_finalizer(),
    ]);
    world.settle();
    assert_eq!(
        (world.status()["failedIndexes"].as_str(), world.counts()),
        (Some(""), [1, 0, 0, 0])
    );
}

#[test]
fn a_job_none_of_whose_indexes_failed_completes() {
    let world = World::of([
        limited(2, 2, 0),
        pod_of("a", 0).succeeded(),
        pod_of("b", 1).succeeded(),
    ]);
    world.settle();
    assert_eq!(
        world.conditions(),
        [
            "SuccessCriteriaMet CompletionsReached",
            "Complete CompletionsReached"
        ]
    );
}
