//! Metrics.

use flyball_sdk::prelude::*;

use super::world::*;

#[test]
fn a_sync_is_counted_by_mode_result_and_action() {
    let action = |objects: Vec<Object>| {
        let world = World::of(objects);
        let _ = world.try_sync();
        world
            .metrics()
            .into_iter()
            .find_map(|line| line.strip_prefix("job_syncs_total ").map(str::to_owned))
            .unwrap()
    };
    assert_eq!(action(vec![job(1, 1)]), "NonIndexed,success,pods_created 1");
    assert_eq!(
        action(vec![indexed(1, 1), pod_of("a", 0)]),
        "Indexed,success,tracking 1"
    );
    assert_eq!(
        action(vec![job(0, 1), pod("a")]),
        "NonIndexed,success,pods_deleted 1"
    );
    assert_eq!(
        action(vec![job(1, 1), pod("a").failed(0)]),
        "NonIndexed,success,pods_created 1"
    );
    assert_eq!(
        action(vec![
            job(1, 0).with("/spec/backoffLimit", 0),
            pod("a").failed(0)
        ]),
        "NonIndexed,success,reconciling 1"
    );
    let unlabelled = job(1, 1).with("/spec/template/metadata/labels", json!({}));
    assert_eq!(action(vec![unlabelled]), "NonIndexed,error,pods_created 1");
}

#[test]
fn the_duration_of_a_sync_is_observed() {
    let world = World::of([job(1, 1)]);
    world.sync();
    let observed = world
        .cluster
        .metrics()
        .into_iter()
        .find(|(_, name, ..)| name.ends_with("_duration_seconds"))
        .unwrap();
    assert_eq!(
        (observed.1.as_str(), observed.2.join(",").as_str()),
        (
            "job_controller_job_sync_duration_seconds",
            "NonIndexed,success,pods_created"
        )
    );
}

#[test]
fn jobs_and_their_pods_are_counted_when_they_finish() {
    let world = World::of([
        job(2, 2),
        pod("a").succeeded(),
        pod("b").succeeded(),
        pod("c").failed(900),
    ]);
    world.settle();
    let metrics = world.metrics();
    for line in [
        "jobs_finished_total NonIndexed,succeeded,CompletionsReached 1",
        "job_pods_finished_total NonIndexed,succeeded 2",
        "job_pods_finished_total NonIndexed,failed 1",
    ] {
        assert!(metrics.contains(&line.to_owned()), "{line}: {metrics:?}");
    }

    let failed = World::of([job(1, 1).with("/spec/backoffLimit", 0), pod("a").failed(0)]);
    failed.settle();
    assert!(
        failed
            .metrics()
            .contains(&"jobs_finished_total NonIndexed,failed,BackoffLimitExceeded 1".into())
    );
}

#[test]
fn indexes_are_counted_when_they_finish_and_not_again_when_the_job_is_made_smaller() {
    let world = World::of([
        limited(3, 4, 0),
        pod_of("a", 0).succeeded(),
        pod_of("b", 1).failed(0),
        pod_of("c", 2),
    ]);
    world.settle();
    let metrics = world.metrics();
    assert!(
        metrics.contains(&"job_finished_indexes_total succeeded,perIndex 1".into()),
        "{metrics:?}"
    );
    assert!(
        metrics.contains(&"job_finished_indexes_total failed,perIndex 1".into()),
        "{metrics:?}"
    );
    assert!(
        metrics.contains(&"job_pods_finished_total Indexed,succeeded 1".into()),
        "{metrics:?}"
    );

    let status = json!({"completedIndexes": "0,3", "succeeded": 2});
    let smaller = World::of([indexed(2, 2).with("/status", status), pod_of("a", 1)]);
    smaller.settle();
    assert_eq!(count(&smaller.metrics(), "job_finished_indexes_total"), 0);
    smaller.end("a", "Succeeded");
    smaller.edit_job(|job| {
        job["status"]["completedIndexes"] = "0,3".into();
        job["status"]["succeeded"] = 2.into();
    });
    smaller.settle();
    assert!(
        smaller
            .metrics()
            .contains(&"job_finished_indexes_total succeeded,global 1".into())
    );
}

#[test]
fn handled_failures_are_counted_by_action() {
    let rules = json!([
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [2]}},
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}},
    ]);
    let policed = job(1, 9).with("/spec/podFailurePolicy/rules", rules);
    let world = World::of([
        policed,
        pod("a").failed(0),
        pod("b").failed(0).exited(2, 0),
        pod("c").failed(0).exited(3, 0),
    ]);
    world.settle();
    let metrics = world.metrics();
    assert_eq!(
        count(&metrics, "pod_failures_handled_by_failure_policy_total"),
        2
    );
    assert!(metrics.contains(&"pod_failures_handled_by_failure_policy_total Ignore 1".into()));
    assert!(metrics.contains(&"pod_failures_handled_by_failure_policy_total Count 1".into()));
}

#[test]
fn creations_are_counted_by_reason() {
    let created = |objects: Vec<Object>| {
        let world = World::of(objects);
        world.sync();
        world
            .metrics()
            .into_iter()
            .find_map(|line| {
                line.strip_prefix("job_pods_creation_total ")
                    .map(str::to_owned)
            })
            .unwrap()
    };
    let patient = |job: Object| job.with("/spec/podReplacementPolicy", "Failed");
    assert_eq!(created(vec![job(2, 2)]), "new,succeeded 2");
    assert_eq!(
        created(vec![job(1, 1), pod("a").failed(900)]),
        "recreate_terminating_or_failed,succeeded 1"
    );
    assert_eq!(
        created(vec![patient(job(1, 1)), pod("a").failed(900)]),
        "recreate_failed,succeeded 1"
    );
    assert_eq!(
        created(vec![patient(job(2, 2)), pod("a").deleting(1)]),
        "recreate_terminating_or_failed,succeeded 1"
    );
    let world = World::of([job(1, 1)]);
    world
        .cluster
        .fail("create", POD, refusal(403, "Forbidden", "quota"));
    world.try_sync().unwrap_err();
    assert!(
        world
            .metrics()
            .contains(&"job_pods_creation_total new,failed 1".into())
    );
}
