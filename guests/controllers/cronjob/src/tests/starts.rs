//! The time at which a Job is created, and the time of the next reconcile.

use std::time::Duration;

use flyball_sdk::prelude::*;

use super::world::*;
use crate::describe::CREATION_SKEW;

const TOO_MANY: &str = "Warning TooManyMissedTimes too many missed start times. Set or decrease \
                        .spec.startingDeadlineSeconds or check clock skew";

#[test]
fn before_the_first_scheduled_time_nothing_happens() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let object = new_cron_job("0 * * * *").spec("concurrencyPolicy", policy);
        let world = world(at("11:59:00"), [object]);
        assert_eq!(world.sync(), after(minutes(1)));
        assert!(world.cluster.written().is_empty() && world.cluster.events().is_empty());
    }
}

#[test]
fn a_job_is_created_for_the_scheduled_time_and_listed_as_active() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let object = new_cron_job("0 * * * ?").spec("concurrencyPolicy", policy);
        let world = world(at("12:01:00"), [object]);
        assert_eq!(world.sync(), after(minutes(59)));
        assert_eq!(world.cluster.written(), started());
        assert_eq!(world.cluster.events(), [created()]);
        let job = world.job(NOON_JOB);
        let active = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": NOON_JOB, "namespace": "default", "uid": job["metadata"]["uid"],
            "resourceVersion": job["metadata"]["resourceVersion"],
        }]);
        assert_eq!(
            world.status(),
            json!({"active": active, "lastScheduleTime": "2026-01-01T12:00:00Z"})
        );
        // The next reconcile finds nothing to do.
        assert_eq!(world.sync(), after(minutes(59)));
        assert!(world.cluster.written().is_empty() && world.cluster.events().is_empty());
    }
}

#[test]
fn a_job_is_made_of_the_template() {
    let world = world(at("12:01:00"), [new_cron_job("0 * * * *")]);
    world.sync();
    let written = world.cluster.writes();
    assert_eq!(
        written[0].body,
        json!({
            "metadata": {
                "name": NOON_JOB,
                "labels": {"a": "b"},
                "annotations": {"x": "y", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T12:00:00Z"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "backup", "uid": "uid-backup",
                                     "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"parallelism": 1, "template": {"spec": {"containers": [{"name": "c", "image": "backup:1"}]}}},
        })
    );
}

#[test]
fn a_template_without_metadata_gives_only_the_annotation() {
    let object = new_cron_job("0 * * * *").spec("jobTemplate", json!({"spec": {"parallelism": 1}}));
    let world = world(at("12:01:00"), [object]);
    world.sync();
    let metadata = &world.job(NOON_JOB)["metadata"];
    assert_eq!(metadata["labels"], Value::Null);
    assert_eq!(
        metadata["annotations"],
        json!({"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T12:00:00Z"})
    );
}

#[test]
fn the_delay_of_a_creation_is_measured() {
    let world = world(at("12:01:00"), [new_cron_job("0 * * * *")]);
    world.sync();
    let metrics = world.cluster.metrics();
    let [(_, name, labels, value)] = metrics.as_slice() else {
        panic!("one observation, not {metrics:?}")
    };
    assert_eq!(
        (name.as_str(), labels.len(), *value),
        (CREATION_SKEW, 0, 60.0)
    );
}

#[test]
fn of_several_missed_times_only_the_latest_is_run() {
    let object = cron_job("*/10 * * * *");
    let world = world(at("12:01:00"), [object]);
    assert_eq!(world.sync(), after(minutes(9)));
    assert_eq!(world.cluster.written(), started());
    assert_eq!(world.cluster.events(), [created()]);
}

#[test]
fn more_than_a_hundred_missed_times_are_reported_and_the_latest_is_run() {
    for policy in ["Allow", "Forbid", "Replace"] {
        for deadline in [Value::Null, 1_000_000.into()] {
            let object = cron_job("0 * * * *")
                .spec("concurrencyPolicy", policy)
                .spec("startingDeadlineSeconds", deadline)
                .with("/status/lastScheduleTime", "2025-12-25T11:00:00Z");
            let world = world(at("12:00:00"), [object]);
            assert_eq!(world.sync(), after(minutes(60)));
            assert_eq!(world.cluster.written(), started());
            assert_eq!(world.cluster.events(), [TOO_MANY.into(), created()]);
        }
    }
}

#[test]
fn a_hundred_missed_times_are_not_reported() {
    let synced = |last: &str| {
        let object = cron_job("* * * * *").with("/status/lastScheduleTime", at(last).to_string());
        let world = world(at("12:00:00"), [object]);
        world.sync();
        world.cluster.events()
    };
    assert_eq!(synced("10:20:00"), [created()]);
    assert_eq!(synced("10:19:00"), [TOO_MANY.into(), created()]);
}

#[test]
fn the_operator_sets_how_many_missed_times_are_reported_and_the_delta() {
    let world = world(at("12:01:00"), [cron_job("*/10 * * * *")]);
    world.cluster.set_config("max-missed-schedules", "5");
    world.cluster.set_config("schedule-delta", "2s");
    let expected = minutes(9) + Duration::from_secs(2);
    assert_eq!(world.sync(), Outcome::RequeueAfter(expected));
    assert_eq!(world.cluster.events(), [TOO_MANY.into(), created()]);
}

#[test]
fn times_before_the_starting_deadline_do_not_count() {
    for (deadline, is_started) in [
        (10, false),
        (60, false),
        (61, true),
        (7200, true),
        (i64::MAX, true),
    ] {
        let object = new_cron_job("0 * * * *").spec("startingDeadlineSeconds", deadline);
        let world = world(at("12:01:00"), [object]);
        assert_eq!(world.sync(), after(minutes(59)), "{deadline}");
        assert_eq!(
            !world.cluster.written().is_empty(),
            is_started,
            "{deadline}"
        );
        // Times before the deadline aren't searched, so they aren't reported as missed either.
        assert_eq!(
            world.cluster.events().len(),
            usize::from(is_started),
            "{deadline}"
        );
    }
}

#[test]
fn few_times_within_the_deadline_are_not_too_many() {
    for (deadline, now) in [(7200, "12:00:00"), (10, "12:00:05")] {
        let object = cron_job("0 * * * *")
            .spec("startingDeadlineSeconds", deadline)
            .with("/status/lastScheduleTime", "2025-12-25T11:00:00Z");
        let world = world(at(now), [object]);
        world.sync();
        assert_eq!(world.cluster.events(), [created()]);
    }
}

#[test]
fn a_time_that_is_late_by_a_fraction_of_a_second_is_missed() {
    let object = new_cron_job("0 * * * *").spec("startingDeadlineSeconds", 0);
    let now = at("12:00:00") + Duration::from_millis(100);
    let delayed = world(now, [object.clone()]);
    assert_eq!(delayed.sync(), Outcome::RequeueAfter(minutes(60)));
    assert!(delayed.cluster.written().is_empty());
    // The search begins after the time, even exactly at the time. Such a deadline never starts a Job.
    let punctual = world(at("12:00:00"), [object]);
    punctual.sync();
    assert!(punctual.cluster.written().is_empty());
}

#[test]
fn a_suspended_cron_job_starts_nothing_and_is_not_requeued() {
    let world = world(
        at("12:01:00"),
        [new_cron_job("0 * * * *").spec("suspend", true)],
    );
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.cluster.written().is_empty() && world.cluster.events().is_empty());
}

#[test]
fn a_deleted_cron_job_starts_nothing() {
    let absent = world(at("12:01:00"), []);
    assert_eq!(absent.sync(), Outcome::Done);
    let deleting = new_cron_job("0 * * * *")
        .with("/metadata/deletionTimestamp", at("12:00:30").to_string())
        .with("/metadata/finalizers", json!(["foregroundDeletion"]));
    let world = world(at("12:01:00"), [deleting]);
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.cluster.written().is_empty());
}

#[test]
fn a_malformed_schedule_is_reported_and_not_requeued() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let object = new_cron_job("obvious error schedule").spec("concurrencyPolicy", policy);
        let world = world(at("12:01:00"), [object]);
        assert_eq!(world.sync(), Outcome::Done);
        assert!(world.cluster.written().is_empty());
        assert_eq!(
            world.cluster.events(),
            [
                "Warning UnparseableSchedule unparseable schedule: \"obvious error schedule\" : expected exactly 5 fields, \
              found 3: [obvious error schedule]"
            ]
        );
    }
}

#[test]
fn an_impossible_date_is_reported_and_not_requeued() {
    for schedule in [
        "59 23 31 2 *",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        ", * * * *",
    ] {
        let world = world(at("12:01:00"), [new_cron_job(schedule)]);
        assert_eq!(world.sync(), Outcome::Done);
        assert!(world.cluster.written().is_empty());
        assert_eq!(
            world.cluster.events(),
            [format!(
                "Warning InvalidSchedule invalid schedule: {schedule} : time difference between two schedules is less than 1 second"
            )]
        );
    }
}

#[test]
fn every_counts_from_the_last_job_or_else_from_the_creation() {
    let never_ran = |now| {
        let world = world(at(now), [new_cron_job("@every 1h")]);
        (world.sync(), world.jobs())
    };
    assert_eq!(never_ran("12:00:00"), (after(minutes(59)), Vec::new()));
    assert_eq!(never_ran("13:00:00").0, after(minutes(59)));
    assert_eq!(never_ran("12:59:00").1, ["backup-29454539"]);
    let ran = |now| {
        let object =
            new_cron_job("@every 1h").with("/status/lastScheduleTime", at("11:30:00").to_string());
        let world = world(at(now), [object]);
        (world.sync(), world.jobs())
    };
    assert_eq!(ran("12:29:59"), (after(Duration::from_secs(1)), Vec::new()));
    assert_eq!(
        ran("12:31:00"),
        (after(minutes(59)), vec!["backup-29454510".into()])
    );
}

#[test]
fn a_starting_deadline_shifts_every() {
    // The interval counts from the deadline, so no time has passed. Kube-controller-manager has this error as well.
    let object = new_cron_job("@every 1h")
        .spec("startingDeadlineSeconds", 10)
        .with("/status/lastScheduleTime", at("11:00:00").to_string());
    let world = world(at("12:00:09"), [object]);
    assert_eq!(world.sync(), after(minutes(60) - Duration::from_secs(9)));
    assert!(world.cluster.written().is_empty());
}

#[test]
fn a_clock_behind_the_last_job_waits_for_the_time_after_it() {
    let object = cron_job("0 * * * *").with("/status/lastScheduleTime", at("12:00:00").to_string());
    let world = world(at("11:59:00"), [object]);
    assert_eq!(world.sync(), after(minutes(61)));
    assert!(world.cluster.written().is_empty());
}

#[test]
fn the_delta_counts_from_fractions_of_seconds() {
    let now = at("12:01:00") + Duration::from_millis(40);
    let world = world(now, [new_cron_job("0 * * * *")]);
    let expected = minutes(59) + Duration::from_millis(60);
    assert_eq!(world.sync(), Outcome::RequeueAfter(expected));
}
