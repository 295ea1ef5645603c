//! Failures between writes, and other writers.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

#[test]
fn a_job_whose_creation_was_not_recorded_is_recorded() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let object = cron_job("0 * * * *").spec("concurrencyPolicy", policy);
        let world = world(at("12:01:00"), [object]);
        world.cluster.fail(
            "update",
            "batch/v1/CronJob/status",
            refusal(409, "Conflict"),
        );
        assert!(world.try_sync().is_err());
        assert!(world.active().is_empty());
        world.cluster.events();
        world.cluster.written();

        assert_eq!(world.sync(), after(minutes(59)));
        let written = world.cluster.writes();
        assert!(
            written[0]
                .error
                .as_ref()
                .is_some_and(|error| error.is_already_exists())
        );
        assert_eq!((written.len(), written[1].to_string()), (2, STATUS.into()));
        assert_eq!(
            world.cluster.events(),
            [format!(
                "Warning UnexpectedJob Saw a job that the controller did not create or forgot: {NOON_JOB}"
            )]
        );
        let (status, job) = (world.status(), world.job(NOON_JOB));
        assert_eq!(status["lastScheduleTime"], "2026-01-01T12:00:00Z");
        assert_eq!(status["active"][0]["uid"], job["metadata"]["uid"]);
        assert_eq!(world.jobs(), [NOON_JOB]);
        world.sync();
        assert!(world.cluster.written().is_empty());
    }
}

#[test]
fn two_controllers_create_one_job() {
    let other = job(NOON_JOB, "12:00:00");
    let world = world(at("12:01:00"), [cron_job("0 * * * *")]);
    world
        .cluster
        .fail("create", JOB, refusal(409, "AlreadyExists"));
    world.cluster.put_live(other.0);
    assert_eq!(world.sync(), after(minutes(59)));
    assert_eq!(world.active(), [NOON_JOB]);
    // Only the creator reports it.
    assert!(world.cluster.events().is_empty() && world.cluster.metrics().is_empty());
}

#[test]
fn a_foreign_job_with_the_name_of_the_job_is_left_alone() {
    let world = world(
        at("12:01:00"),
        [cron_job("0 * * * *"), foreign_job(NOON_JOB)],
    );
    assert_eq!(world.sync(), after(minutes(59)));
    assert_eq!(world.cluster.written().len(), 1, "the failed creation");
    assert!(world.active().is_empty() && world.cluster.events().is_empty());
    assert_eq!(world.status()["lastScheduleTime"], "2026-01-01T11:00:00Z");
}

#[test]
fn an_existing_job_that_is_active_is_not_recorded_again() {
    let object = cron_job("0 * * * *").active([NOON_JOB]);
    let world = world(at("12:01:00"), [object, job(NOON_JOB, "12:00:00")]);
    assert_eq!(world.sync(), after(minutes(59)));
    assert_eq!(world.active(), [NOON_JOB]);
    assert_eq!(world.status()["lastScheduleTime"], "2026-01-01T11:00:00Z");
}

#[test]
fn a_job_that_vanishes_after_a_failed_creation_is_created_again() {
    let world = world(at("12:01:00"), [cron_job("0 * * * *")]);
    world
        .cluster
        .fail("create", JOB, refusal(409, "AlreadyExists"));
    assert!(world.try_sync().is_err());
    assert!(world.cluster.events().is_empty());
    world.sync();
    assert_eq!(world.active(), [NOON_JOB]);
}

#[test]
fn a_refused_creation_is_reported_and_retried() {
    let world = world(at("12:01:00"), [cron_job("0 * * * *")]);
    world.cluster.fail("create", JOB, refusal(403, "Forbidden"));
    assert!(!world.try_sync().unwrap_err().is_terminal());
    assert_eq!(
        world.cluster.events(),
        ["Warning FailedCreate Error creating job: the test refuses this: Forbidden"]
    );
    assert_eq!(world.status()["lastScheduleTime"], "2026-01-01T11:00:00Z");
    assert_eq!(world.sync(), after(minutes(59)));
}

#[test]
fn a_creation_in_a_namespace_that_is_being_deleted_is_retried_without_an_event() {
    let world = world(at("12:01:00"), [cron_job("0 * * * *")]);
    world
        .cluster
        .fail("create", JOB, refusal(403, "NamespaceTerminating"));
    assert!(world.try_sync().is_err());
    assert!(world.cluster.events().is_empty());
}

#[test]
fn a_finished_job_is_recorded_even_if_the_creation_fails() {
    let object = cron_job("0 * * * *").active(["a"]);
    let world = world(
        at("12:01:00"),
        [object, job("a", "11:00:00").succeeded("11:10:00")],
    );
    world
        .cluster
        .fail("create", JOB, refusal(500, "InternalError"));
    assert!(world.try_sync().is_err());
    assert!(world.active().is_empty());
    assert_eq!(world.status()["lastSuccessfulTime"], "2026-01-01T11:10:00Z");
}

#[test]
fn a_schedule_of_seconds_runs_one_job_a_minute() {
    let world = world(at("12:00:30"), [new_cron_job("@every 30s")]);
    assert_eq!(world.sync(), after(std::time::Duration::from_secs(30)));
    assert_eq!(world.active(), [NOON_JOB]);
    world.cluster.written();
    // 12:00:30 and 12:00:00 have one name, and the Job of it is active or exists.
    let edit = |world: &World, change: &dyn Fn(&mut Value)| {
        world.cluster.edit(CRON_JOB, "default", "backup", change)
    };
    edit(&world, &|object| {
        object["status"]["lastScheduleTime"] = "2026-01-01T12:00:00Z".into()
    });
    world.sync();
    assert!(world.cluster.written().is_empty());
    world.cluster.edit(JOB, "default", NOON_JOB, |job| {
        job["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    });
    world.sync();
    assert_eq!(world.jobs(), [NOON_JOB]);
    assert_eq!(world.status()["lastScheduleTime"], "2026-01-01T12:00:30Z");
}

#[test]
fn a_cron_job_that_cannot_be_read_live_is_retried() {
    let world = world(
        at("12:01:00"),
        [cron_job("0 * * * *"), job("a", "11:00:00")],
    );
    world
        .cluster
        .fail("get", CRON_JOB, refusal(500, "InternalError"));
    assert!(world.try_sync().is_err());
    assert!(world.cluster.written().is_empty());
}
