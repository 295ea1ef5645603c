//! Concurrency policies.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

const OLD: &str = "backup-29454420";

/// A CronJob with this policy, whose Job of 11:00 still runs at 12:01.
fn busy(policy: &str) -> World {
    let object = cron_job("0 * * * *")
        .spec("concurrencyPolicy", policy)
        .active([OLD]);
    world(at("12:01:00"), [object, job(OLD, "11:00:00")])
}

#[test]
fn allow_starts_a_job_beside_a_running_one() {
    for policy in ["Allow", ""] {
        let world = busy(policy);
        assert_eq!(world.sync(), after(minutes(59)));
        assert_eq!(world.cluster.written(), started());
        assert_eq!(world.active(), [OLD, NOON_JOB]);
    }
}

#[test]
fn forbid_waits_for_the_running_job_and_then_starts_late() {
    let world = busy("Forbid");
    assert_eq!(world.sync(), after(minutes(59)));
    assert!(world.cluster.written().is_empty());
    assert_eq!(
        world.cluster.events(),
        [
            "Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid"
        ]
    );
    world
        .cluster
        .put(job(OLD, "11:00:00").succeeded("12:01:00").0);
    world.sync();
    assert_eq!(world.cluster.written(), started());
    assert_eq!(world.active(), [NOON_JOB]);
}

#[test]
fn replace_deletes_the_running_job_before_it_starts_one() {
    let world = busy("Replace");
    assert_eq!(world.sync(), after(minutes(59)));
    let writes = world.cluster.writes();
    let lines: Vec<_> = writes.iter().map(ToString::to_string).collect();
    let [create, status] = started();
    assert_eq!(
        lines,
        [format!("delete {JOB} default/{OLD}"), create, status]
    );
    assert_eq!(
        writes[0].options,
        json!({"propagationPolicy": "Background", "preconditions": {"uid": format!("uid-{OLD}")}})
    );
    assert_eq!(world.active(), [NOON_JOB]);
    assert_eq!(
        world.cluster.events(),
        [
            format!("Normal SuccessfulDelete Deleted job {OLD}"),
            created()
        ]
    );
}

#[test]
fn replace_starts_nothing_if_the_running_job_cannot_be_read() {
    let world = busy("Replace");
    world
        .cluster
        .fail("get", JOB, refusal(500, "InternalError"));
    assert!(world.try_sync().is_err());
    assert!(world.cluster.written().is_empty());
    assert_eq!(
        world.cluster.events(),
        ["Warning FailedGet Get job: the test refuses this: InternalError"]
    );
    world.cluster.remove_live(JOB, "default", OLD);
    assert!(world.try_sync().is_err());
    assert_eq!(
        world.cluster.events(),
        [format!(
            "Warning FailedGet Get job: jobs.batch \"{OLD}\" not found"
        )]
    );
}

#[test]
fn replace_reports_a_name_that_no_job_can_have_in_the_words_of_kubernetes_client() {
    for (namespace, name, problem) in [
        ("", OLD, "the server could not find the requested resource"),
        ("default", "", "resource name may not be empty"),
        ("", "", "resource name may not be empty"),
        (
            "default",
            "a/b%c",
            r#"invalid resource name "a/b%c": [may not contain '/' may not contain '%']"#,
        ),
        (
            "default",
            "..",
            r#"invalid resource name "..": [may not be '..']"#,
        ),
        (
            "a/b",
            "",
            r#"invalid namespace "a/b": [may not contain '/']"#,
        ),
    ] {
        // The UID is that of a Job that the cache has. Otherwise the entry is removed.
        let entry = json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": namespace, "name": name,
                           "uid": format!("uid-{OLD}")});
        let object = cron_job("0 * * * *")
            .spec("concurrencyPolicy", "Replace")
            .with("/status/active", json!([entry]));
        let world = world(at("12:01:00"), [object, job(OLD, "11:00:00")]);
        assert!(world.try_sync().is_err());
        assert_eq!(
            world.cluster.events(),
            [format!("Warning FailedGet Get job: {problem}")]
        );
        assert!(world.cluster.written().is_empty());
    }
}

#[test]
fn replace_starts_nothing_if_the_running_job_cannot_be_deleted() {
    let world = busy("Replace");
    world.cluster.fail("delete", JOB, refusal(403, "Forbidden"));
    let error = world.try_sync().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("could not replace job default/{OLD}")
    );
    assert_eq!(world.jobs(), [OLD]);
    assert_eq!(
        world.cluster.events(),
        ["Warning FailedDelete Deleted job: the test refuses this: Forbidden"]
    );
}

#[test]
fn what_was_replaced_before_a_failure_is_in_the_status() {
    let object = cron_job("0 * * * *")
        .spec("concurrencyPolicy", "Replace")
        .active(["a", "b"]);
    let world = world(
        at("12:01:00"),
        [object, job("a", "10:00:00"), job("b", "11:00:00")],
    );
    world
        .cluster
        .fail_nth("delete", JOB, 2, refusal(403, "Forbidden"));
    assert!(world.try_sync().is_err());
    assert_eq!(world.active(), ["b"]);
    assert_eq!(world.jobs(), ["b"]);
}

#[test]
fn a_running_job_that_is_not_due_to_be_replaced_stays() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let object = cron_job("0 * * * *")
            .spec("concurrencyPolicy", policy)
            .active([OLD]);
        let world = world(at("11:59:00"), [object, job(OLD, "11:00:00")]);
        assert_eq!(world.sync(), after(minutes(1)));
        assert!(world.cluster.written().is_empty() && world.cluster.events().is_empty());
    }
}

#[test]
fn a_suspended_cron_job_and_one_past_its_deadline_leave_the_running_job_alone() {
    for (field, value) in [
        ("suspend", true.into()),
        ("startingDeadlineSeconds", Value::from(10)),
    ] {
        let object = cron_job("0 * * * *")
            .spec("concurrencyPolicy", "Replace")
            .spec(field, value)
            .active([OLD]);
        let world = world(at("12:01:00"), [object, job(OLD, "11:00:00")]);
        world.sync();
        assert!(world.cluster.written().is_empty());
    }
}

#[test]
fn a_time_whose_job_is_active_is_not_run_again() {
    // The last time was not written, or is an older one.
    for policy in ["Allow", "Forbid", "Replace"] {
        let object = cron_job("0 * * * *")
            .spec("concurrencyPolicy", policy)
            .active([NOON_JOB]);
        let world = world(at("12:01:00"), [object, job(NOON_JOB, "12:00:00")]);
        assert_eq!(world.sync(), after(minutes(59)));
        assert!(world.cluster.written().is_empty() && world.cluster.events().is_empty());
    }
}
