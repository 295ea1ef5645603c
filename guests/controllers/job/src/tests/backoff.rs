//! Waiting before failed pods are replaced.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::backoff::{Record, wait_of_index};
use crate::settings::Settings;
use crate::views::Pod;

fn after(record: &Record, succeeded: &[Pod], failed: &[Pod]) -> Record {
    record.after(
        &succeeded.iter().collect::<Vec<_>>(),
        &failed.iter().collect::<Vec<_>>(),
    )
}

fn record(failures: u32, seconds_ago: i64) -> Record {
    Record {
        failures,
        last: Some(time(-seconds_ago)),
    }
}

#[test]
fn failures_accumulate_and_a_success_resets_earlier_ones() {
    let [first, last] = [pod("a").failed(20).pod(), pod("b").failed(5).pod()];
    let success = |ago: i64| pod("s").phase("Succeeded").exited(0, ago).pod();
    let before = record(3, 60);
    assert_eq!(after(&before, &[], &[]), before);
    assert_eq!(
        after(&before, &[], &[last.clone(), first.clone()]),
        record(5, 5)
    );
    assert_eq!(after(&before, &[success(1)], &[]), Record::default());
    assert_eq!(
        after(
            &before,
            &[success(30), success(10)],
            &[first.clone(), last.clone()]
        ),
        record(1, 5)
    );
    // A failure at the time of the success is not after it.
    assert_eq!(
        after(&before, &[success(5)], &[first, last]),
        Record::default()
    );
}

#[test]
fn the_backoff_doubles_up_to_the_maximum() {
    let wait = |failures: u32| {
        record(failures, 0)
            .wait(&Settings::default(), NOON)
            .as_secs()
    };
    assert_eq!(
        [0, 1, 2, 3, 6, 7, 8, 40, u32::MAX].map(wait),
        [0, 10, 20, 40, 320, 600, 600, 600, 600]
    );
    assert_eq!(record(3, 35).wait(&Settings::default(), NOON), seconds(5));
    assert_eq!(record(3, 45).wait(&Settings::default(), NOON), seconds(0));
    // The first backoff is used as configured, even if the maximum is lower.
    let odd = Settings {
        max_pod_failure_backoff: seconds(4),
        ..Settings::default()
    };
    assert_eq!(
        [1, 2].map(|failures| record(failures, 0).wait(&odd, NOON).as_secs()),
        [10, 4]
    );
}

#[test]
fn the_annotations_of_the_last_pod_determine_the_backoff_of_an_index() {
    let failed = pod_of("a", 0)
        .failed(5)
        .annotated("batch.kubernetes.io/job-index-failure-count", 1);
    let wait = |pod: &Object| wait_of_index(Some(&pod.pod()), &Settings::default(), NOON);
    assert_eq!(wait(&failed), seconds(15));
    assert_eq!(
        wait(&failed.annotated("batch.kubernetes.io/job-index-ignored-failure-count", 1)),
        seconds(35)
    );
    assert_eq!(wait_of_index(None, &Settings::default(), NOON), seconds(0));
}

#[test]
fn a_failed_pod_is_replaced_after_a_while_and_the_next_one_later() {
    let world = World::of([job(1, 1), pod("a").failed(0)]);
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(10))));
    // The pod is counted now, and the backoff continues.
    world.cluster.advance(seconds(9));
    assert_eq!(
        (world.try_sync(), world.counts()),
        (Ok(Outcome::RequeueAfter(seconds(1))), [0, 0, 0, 1])
    );
    world.cluster.advance(seconds(1));
    assert_eq!(
        (world.try_sync(), world.counts()),
        (Ok(Outcome::Done), [1, 0, 0, 1])
    );
    world.reap();

    let second = world
        .names()
        .into_iter()
        .find(|name| name.starts_with("work-"))
        .unwrap();
    world.end(&second, "Failed");
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(20))));
    assert_eq!(world.counts(), [0, 0, 0, 2]);
}

#[test]
fn while_a_job_waits_its_running_pods_stay_active() {
    let world = World::of([job(2, 5), pod("a").failed(0), pod("b").ready(5)]);
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(10))));
    assert_eq!(
        (world.counts()[0], world.status()["ready"].as_i64()),
        (1, Some(1))
    );
}

#[test]
fn a_job_is_not_requeued_before_the_batch_period() {
    let world = World::of([job(1, 1), pod("a").failed(9)]);
    world.cluster.set_config("sync-batch-period", "3s");
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(3))));
}

#[test]
fn a_job_is_requeued_at_the_earlier_of_deadline_and_backoff() {
    let world = World::of([
        job(1, 1).with("/spec/activeDeadlineSeconds", 7),
        pod("a").failed(0),
    ]);
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(7))));
}

#[test]
fn the_backoff_survives_a_failed_status_write() {
    let world = World::of([job(1, 1), pod("a").failed(0)]);
    world.cluster.fail(
        "update",
        "batch/v1/Job/status",
        refusal(409, "Conflict", "modified"),
    );
    world.try_sync().unwrap_err();
    let enqueued = world.cluster.enqueued();
    assert_eq!(
        (
            enqueued[0].queue.as_str(),
            enqueued[0].key.as_str(),
            enqueued[0].delay
        ),
        ("job", KEY, seconds(10))
    );
    // The record is stored only after the status write: this is one failure, not two.
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(10))));
    assert_eq!(
        world.cluster.host().memo().get::<Record>("uid-work"),
        Some(record(1, 0))
    );
}

#[test]
fn the_record_is_forgotten_when_the_job_has_ended() {
    let world = World::of([job(1, 1), pod("a").failed(0)]);
    world.sync();
    world.edit_job(|job| {
        job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}])
    });
    world.sync();
    assert_eq!(world.cluster.host().memo().get::<Record>("uid-work"), None);
}

#[test]
fn the_operator_configures_the_backoff() {
    let world = World::of([job(1, 1), pod("a").failed(0)]);
    world.cluster.set_config("pod-failure-backoff", "1m");
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(60))));
    world.cluster.set_config("pod-failure-backoff", "soon");
    assert_eq!(
        world.try_sync(),
        Err("invalid value of setting pod-failure-backoff: `soon`".into())
    );
}

#[test]
fn a_pod_ended_when_its_last_container_did() {
    let at = |ago: i64| time(-ago);
    let plain = pod("a").with("/metadata/creationTimestamp", ago(100));
    assert_eq!(plain.pod().finished_at(), at(100));
    let going = plain.deleting(40);
    assert_eq!(going.pod().finished_at(), at(40));
    let unready = going.with(
        "/status/conditions",
        json!([{"type": "Ready", "status": "False", "lastTransitionTime": ago(30)}]),
    );
    assert_eq!(unready.pod().finished_at(), at(30));
    let ended = |name: &str, ago_: i64| json!({"name": name, "state": {"terminated": {"exitCode": 1, "finishedAt": ago(ago_)}}});
    let two = unready.with(
        "/status/containerStatuses",
        json!([ended("c", 20), ended("d", 15)]),
    );
    assert_eq!(two.pod().finished_at(), at(15));
    // One container still runs, so the containers have no end time.
    let half = two
        .clone()
        .with("/status/containerStatuses/1/state", json!({"running": {}}));
    assert_eq!(half.pod().finished_at(), at(30));

    // A sidecar ends after the containers; other init containers ended before.
    let sidecar = two
        .with(
            "/spec/initContainers",
            json!([{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]),
        )
        .with(
            "/status/initContainerStatuses",
            json!([ended("side", 10), ended("init", 1)]),
        );
    assert_eq!(sidecar.pod().finished_at(), at(10));
    let runs = sidecar.with(
        "/status/initContainerStatuses/0/state",
        json!({"running": {}}),
    );
    assert_eq!(runs.pod().finished_at(), at(30));
}
