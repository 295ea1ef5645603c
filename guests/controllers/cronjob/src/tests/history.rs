//! The limits on finished Jobs.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{refusal, view};

use super::world::*;
use crate::history::surplus;
use crate::views::{CronJob, Job};

fn names(cron_job: &Object, jobs: &[Object]) -> Vec<String> {
    let jobs: Vec<Job> = jobs.iter().map(|job| view(job.0.clone())).collect();
    let cron_job: CronJob = view(cron_job.0.clone());
    surplus(&cron_job, &jobs)
        .iter()
        .map(|job| job.meta.name.clone())
        .collect()
}

#[test]
fn the_oldest_jobs_beyond_each_limit_are_surplus() {
    let jobs = [
        job("a", "11:03:00").succeeded("11:10:00"),
        job("b", "11:01:00").succeeded("11:10:00"),
        job("c", "11:02:00").succeeded("11:10:00"),
        job("d", "11:05:00").failed(),
        job("e", "11:04:00").failed(),
        job("f", "11:00:00"),
    ];
    let limited = |successful: Value, failed: Value| {
        let object = cron_job("0 * * * *")
            .spec("successfulJobsHistoryLimit", successful)
            .spec("failedJobsHistoryLimit", failed);
        names(&object, &jobs)
    };
    assert_eq!(limited(1.into(), 1.into()), ["b", "c", "e"]);
    assert_eq!(limited(0.into(), 0.into()), ["b", "c", "a", "e", "d"]);
    assert_eq!(limited(3.into(), 2.into()), [""; 0]);
    assert_eq!(limited(Value::Null, 0.into()), ["e", "d"]);
    assert_eq!(limited(2.into(), Value::Null), ["b"]);
    assert_eq!(limited(Value::Null, Value::Null), [""; 0]);
}

#[test]
fn of_jobs_with_the_same_start_the_first_name_is_the_oldest_and_those_that_never_started_are_the_newest()
 {
    let jobs = [
        job("b", "11:00:00").failed(),
        job("c", "11:00:00").failed(),
        job("a", "11:00:00")
            .with("/status/startTime", Value::Null)
            .failed(),
        job("d", "11:00:00")
            .with("/status/startTime", Value::Null)
            .failed(),
    ];
    let object = cron_job("0 * * * *").spec("failedJobsHistoryLimit", 0);
    assert_eq!(names(&object, &jobs), ["b", "c", "a", "d"]);
}

#[test]
fn a_job_whose_condition_is_not_true_is_not_finished() {
    let unfinished = job("a", "11:00:00").with(
        "/status/conditions",
        json!([{"type": "Complete", "status": "False"}]),
    );
    let object = cron_job("0 * * * *").spec("successfulJobsHistoryLimit", 0);
    assert_eq!(names(&object, &[unfinished]), [""; 0]);
}

#[test]
fn surplus_jobs_are_deleted_with_their_pods() {
    let object = cron_job("0 * * * *")
        .spec("successfulJobsHistoryLimit", 1)
        .active(["a"]);
    let world = world(
        at("11:59:00"),
        [
            object,
            job("a", "11:00:00").succeeded("11:10:00"),
            job("b", "11:20:00").succeeded("11:30:00"),
        ],
    );
    assert_eq!(world.sync(), after(minutes(1)));
    let writes = world.cluster.writes();
    let lines: Vec<_> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, [format!("delete {JOB} default/a"), STATUS.into()]);
    assert_eq!(
        writes[0].options,
        json!({"propagationPolicy": "Background", "preconditions": {"uid": "uid-a"}})
    );
    // It was active, and its deletion is all that is reported.
    assert_eq!(
        world.cluster.events(),
        ["Normal SuccessfulDelete Deleted job a"]
    );
    assert!(world.active().is_empty());
    assert_eq!(world.sync(), after(minutes(1)));
    assert!(world.cluster.written().is_empty());
}

#[test]
fn a_deletion_that_changes_nothing_in_the_status_does_not_write_it() {
    let object = cron_job("0 * * * *").spec("failedJobsHistoryLimit", 0);
    let world = world(at("11:59:00"), [object, job("a", "11:00:00").failed()]);
    world.sync();
    assert_eq!(world.cluster.written(), [format!("delete {JOB} default/a")]);
}

#[test]
fn a_failed_deletion_is_reported_and_delays_nothing() {
    let object = cron_job("0 * * * *").spec("failedJobsHistoryLimit", 0);
    let world = world(at("12:01:00"), [object, job("a", "11:00:00").failed()]);
    world.cluster.fail("delete", JOB, refusal(403, "Forbidden"));
    world.sync();
    assert_eq!(
        world.cluster.events(),
        [
            "Warning FailedDelete Deleted job: the test refuses this: Forbidden".into(),
            created()
        ]
    );
    assert_eq!(world.jobs(), ["a", NOON_JOB]);
}

#[test]
fn surplus_jobs_are_deleted_even_if_no_job_can_be_created() {
    // Otherwise a quota on Jobs would never free itself.
    let object = cron_job("0 * * * *").spec("successfulJobsHistoryLimit", 0);
    let world = world(
        at("12:01:00"),
        [object, job("a", "11:00:00").succeeded("11:10:00")],
    );
    world.cluster.fail("create", JOB, refusal(403, "Forbidden"));
    assert!(world.try_sync().is_err());
    assert!(world.jobs().is_empty());
}

#[test]
fn a_suspended_cron_job_keeps_its_limits() {
    let object = cron_job("0 * * * *")
        .spec("failedJobsHistoryLimit", 0)
        .spec("suspend", true);
    let world = world(at("12:01:00"), [object, job("a", "11:00:00").failed()]);
    world.sync();
    assert!(world.jobs().is_empty());
}
