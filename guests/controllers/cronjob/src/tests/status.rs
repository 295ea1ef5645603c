//! The active Jobs and the last success in the status.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

#[test]
fn a_finished_job_is_no_longer_active() {
    let object = cron_job("0 * * * *").active(["a", "b"]);
    let jobs = [
        job("a", "11:00:00").succeeded("11:10:00"),
        job("b", "11:00:00").failed(),
    ];
    let world = world(at("11:59:00"), [vec![object], jobs.to_vec()].concat());
    assert_eq!(world.sync(), after(minutes(1)));
    assert_eq!(world.cluster.written(), [STATUS]);
    assert_eq!(
        world.cluster.events(),
        [
            "Normal SawCompletedJob Saw completed job: a, condition: Complete",
            "Normal SawCompletedJob Saw completed job: b, condition: Failed",
        ]
    );
    assert_eq!(
        world.status(),
        json!({"lastScheduleTime": "2026-01-01T11:00:00Z", "lastSuccessfulTime": "2026-01-01T11:10:00Z"})
    );
    world.sync();
    assert!(world.cluster.written().is_empty());
}

#[test]
fn the_last_success_is_the_latest_completion_even_of_jobs_that_were_not_active() {
    let jobs = [
        job("a", "11:00:00").succeeded("11:10:00"),
        job("b", "10:00:00").succeeded("11:20:00"),
        job("c", "11:30:00").failed(),
        // Without a completion time.
        job("d", "11:40:00").with(
            "/status/conditions",
            json!([{"type": "Complete", "status": "True"}]),
        ),
    ];
    let world = world(
        at("11:59:00"),
        [
            vec![cron_job("0 * * * *").spec("successfulJobsHistoryLimit", 3)],
            jobs.to_vec(),
        ]
        .concat(),
    );
    world.sync();
    assert_eq!(world.status()["lastSuccessfulTime"], "2026-01-01T11:20:00Z");
    assert!(world.cluster.events().is_empty());
}

#[test]
fn the_last_success_never_moves_back() {
    let object =
        cron_job("0 * * * *").with("/status/lastSuccessfulTime", at("11:30:00").to_string());
    let world = world(
        at("11:59:00"),
        [object, job("a", "11:00:00").succeeded("11:10:00")],
    );
    world.sync();
    assert!(world.cluster.written().is_empty());
}

#[test]
fn a_success_counts_even_if_the_history_keeps_none() {
    for limit in [Value::Null, 0.into(), 10.into()] {
        let object = cron_job("0 * * * *")
            .spec("successfulJobsHistoryLimit", limit)
            .active(["a"]);
        let world = world(
            at("11:59:00"),
            [object, job("a", "11:00:00").succeeded("11:10:00")],
        );
        world.sync();
        assert_eq!(
            world.status(),
            json!({"lastScheduleTime": "2026-01-01T11:00:00Z", "lastSuccessfulTime": "2026-01-01T11:10:00Z"})
        );
    }
}

#[test]
fn a_suspended_or_deleted_cron_job_still_follows_its_jobs() {
    let suspended = cron_job("0 * * * *").spec("suspend", true);
    let deleting = cron_job("0 * * * *")
        .with("/metadata/deletionTimestamp", at("11:58:00").to_string())
        .with("/metadata/finalizers", json!(["foregroundDeletion"]));
    for object in [suspended, deleting] {
        let world = world(
            at("11:59:00"),
            [object.active(["a"]), job("a", "11:00:00").failed()],
        );
        assert_eq!(world.sync(), Outcome::Done);
        assert_eq!(world.cluster.written(), [STATUS]);
        assert!(world.active().is_empty());
    }
}

#[test]
fn an_active_job_that_no_longer_exists_is_removed() {
    let world = world(
        at("11:59:00"),
        [
            cron_job("0 * * * *").active(["a", "b"]),
            job("b", "11:00:00"),
        ],
    );
    assert_eq!(world.sync(), after(minutes(1)));
    assert_eq!(world.cluster.live_reads(), ["get batch/v1/Job default/a"]);
    assert_eq!(
        world.cluster.events(),
        ["Normal MissingJob Active job went missing: a"]
    );
    assert_eq!(world.active(), ["b"]);
}

#[test]
fn an_active_job_that_the_cache_does_not_have_yet_stays() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let object = cron_job("0 * * * *")
            .spec("concurrencyPolicy", policy)
            .with("/status/lastScheduleTime", at("12:00:00").to_string())
            .active([NOON_JOB]);
        let world = world(at("12:01:00"), [object]);
        world.cluster.put_live(job(NOON_JOB, "12:00:00").0);
        assert_eq!(world.sync(), after(minutes(59)));
        assert!(world.cluster.written().is_empty() && world.cluster.events().is_empty());
    }
}

#[test]
fn while_the_existence_of_an_active_job_is_unknown_nothing_is_started() {
    let object = cron_job("0 * * * *").active(["a", "b", "c"]);
    let world = world(at("12:01:00"), [object, job("c", "11:00:00").failed()]);
    world
        .cluster
        .fail("get", JOB, refusal(500, "InternalError"));
    assert!(world.try_sync().is_err());
    // The known part of the status is written.
    assert_eq!(world.cluster.written(), [STATUS]);
    assert_eq!(world.active(), ["a", "b"]);
    assert_eq!(world.jobs(), ["c"]);
}

#[test]
fn a_running_job_that_is_not_listed_is_reported() {
    let world = world(
        at("11:59:00"),
        [cron_job("0 * * * *"), job("a", "11:00:00")],
    );
    assert_eq!(world.sync(), after(minutes(1)));
    assert_eq!(
        world.cluster.live_reads(),
        ["get batch/v1/CronJob default/backup"]
    );
    assert_eq!(
        world.cluster.events(),
        ["Warning UnexpectedJob Saw a job that the controller did not create or forgot: a"]
    );
    assert!(world.cluster.written().is_empty());
}

#[test]
fn a_running_job_that_only_the_live_status_lists_makes_the_live_cron_job_count() {
    for policy in ["Allow", "Forbid", "Replace"] {
        let object = cron_job("0 * * * *").spec("concurrencyPolicy", policy);
        let world = world(at("12:01:00"), [object.clone(), job(NOON_JOB, "12:00:00")]);
        let live = object
            .active([NOON_JOB])
            .with("/status/lastScheduleTime", at("12:00:00").to_string());
        world.cluster.put_live(live.0);
        assert_eq!(world.sync(), after(minutes(59)));
        assert!(world.cluster.written().is_empty() && world.cluster.events().is_empty());
    }
}

#[test]
fn a_cron_job_that_was_deleted_meanwhile_is_left_alone() {
    let world = world(
        at("12:01:00"),
        [cron_job("0 * * * *"), job("a", "11:00:00")],
    );
    world.cluster.remove_live(CRON_JOB, "default", "backup");
    assert_eq!(world.sync(), Outcome::Done);
    assert!(world.cluster.written().is_empty() && world.cluster.events().is_empty());
}

#[test]
fn jobs_of_other_owners_namespaces_and_kinds_are_ignored() {
    let owned_by = |name: &str, field: &str, value: Value| {
        job(name, "11:00:00").with(&format!("/metadata/ownerReferences/0/{field}"), value)
    };
    // Kubernetes 1.37 goes by the UID alone.
    for release in ["1.36", "1.37"] {
        let uid = match release {
            "1.36" => "uid-backup",
            _ => "another",
        };
        let jobs = [
            foreign_job("a"),
            owned_by("b", "name", "other".into()).with("/metadata/ownerReferences/0/uid", uid),
            owned_by("c", "kind", "Workflow".into())
                .with("/metadata/ownerReferences/0/apiVersion", "example.com/v1")
                .with("/metadata/ownerReferences/0/uid", uid),
            owned_by("d", "controller", false.into()),
            job("e", "11:00:00").with("/metadata/namespace", "other"),
        ];
        let world = world(
            at("11:59:00"),
            [vec![cron_job("0 * * * *")], jobs.to_vec()].concat(),
        );
        world.cluster.set_config("emulated-version", release);
        world.sync();
        assert!(world.cluster.events().is_empty(), "{release}");
    }
}

#[test]
fn jobs_of_a_deleted_cron_job_of_the_same_name_counted_until_kubernetes_1_36() {
    for (release, expected) in [
        ("1.36", json!("2026-01-01T11:10:00Z")),
        ("1.37", Value::Null),
    ] {
        let predecessors = job("a", "11:00:00")
            .with("/metadata/ownerReferences/0/uid", "another")
            .succeeded("11:10:00");
        let world = world(at("11:59:00"), [cron_job("0 * * * *"), predecessors]);
        world.cluster.set_config("emulated-version", release);
        world.sync();
        assert_eq!(world.status()["lastSuccessfulTime"], expected, "{release}");
    }
}

#[test]
fn jobs_are_found_whatever_their_labels() {
    let relabelled = job("a", "11:00:00")
        .with("/metadata/labels", json!({"a": "other"}))
        .failed();
    let world = world(
        at("11:59:00"),
        [cron_job("0 * * * *").active(["a"]), relabelled],
    );
    world.sync();
    assert!(world.active().is_empty());
}
