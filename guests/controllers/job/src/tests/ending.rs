//! The end of jobs: its reason, its time, and the order of the conditions.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::backoff::Record;
use crate::observed::Observed;
use crate::settings::Settings;
use crate::verdict::{judge, set_condition, stamped};
use crate::views::{Job, Pod};

/// The reason of the verdict on a job.
fn reason(job: &Job, pods: &[Pod]) -> Option<String> {
    let settings = Settings::default();
    let observed = Observed::of(job, pods, Record::default(), &settings, NOON);
    judge(&observed).map(|verdict| verdict.reason)
}

#[test]
fn a_job_completes_when_enough_pods_have_succeeded() {
    let world = World::of([job(2, 2), pod("a").succeeded(), pod("b").succeeded()]);
    world.try_sync().unwrap();
    let writes = world.cluster.writes();
    let number_of_conditions = |write: usize| {
        writes[write].body["status"]["conditions"]
            .as_array()
            .unwrap()
            .len()
    };
    // SuccessCriteriaMet is written before any finalizer is removed, and Complete at the end.
    assert_eq!(
        (
            number_of_conditions(0),
            writes[0].body["status"]["completionTime"].is_null(),
            number_of_conditions(writes.len() - 1)
        ),
        (1, true, 2)
    );
    assert_eq!(
        world.conditions(),
        [
            "SuccessCriteriaMet CompletionsReached",
            "Complete CompletionsReached"
        ]
    );
    let status = world.status();
    assert_eq!(status["completionTime"], ago(0));
    assert_eq!(
        status["conditions"][1]["message"],
        "Reached expected number of succeeded pods"
    );
    assert_eq!(status["conditions"][1]["lastProbeTime"], ago(0));
    assert_eq!(world.cluster.events(), ["Normal Completed Job completed"]);
}

#[test]
fn more_successes_than_asked_for_are_warned_about() {
    let world = World::of([job(1, 1), pod("a").succeeded(), pod("b").succeeded()]);
    world.settle();
    assert_eq!(
        world.cluster.events(),
        [
            "Warning TooManySucceededPods Too many succeeded pods running after completion count reached",
            "Normal Completed Job completed"
        ]
    );
}

#[test]
fn without_completions_one_success_and_the_end_of_the_other_pods_complete_a_job() {
    let world = World::of([
        job(3, None),
        pod("a").succeeded(),
        pod("b"),
        pod("c").failed(1),
    ]);
    world.settle();
    assert_eq!(
        (
            world.counts(),
            world.conditions().len(),
            world.names().len()
        ),
        ([1, 0, 1, 1], 0, 3)
    );
    world.end("b", "Failed");
    world.settle();
    assert_eq!(
        world.conditions(),
        [
            "SuccessCriteriaMet CompletionsReached",
            "Complete CompletionsReached"
        ]
    );
    assert_eq!(world.counts(), [0, 0, 1, 2]);
}

#[test]
fn a_job_of_no_completions_completes_at_once_with_a_start_time() {
    let world = World::of([job(1, 0)]);
    world.settle();
    assert_eq!(
        (
            world.conditions().len(),
            &world.status()["startTime"],
            world.names().len()
        ),
        (2, &json!(ago(0)), 0)
    );
}

#[test]
fn too_many_failures_fail_the_job_once_its_pods_are_deleted() {
    let world = World::of([
        job(2, 5).with("/spec/backoffLimit", 1),
        pod("a").failed(9),
        pod("b").failed(9),
        pod("c"),
    ]);
    world.sync();
    assert_eq!(world.conditions(), ["FailureTarget BackoffLimitExceeded"]);
    // The running pod is deleted, loses its finalizer and counts as a failure.
    assert_eq!(
        (world.counts(), world.has_finalizer("c")),
        ([0, 1, 0, 3], false)
    );
    assert_eq!(
        world.cluster.events(),
        ["Normal SuccessfulDelete Deleted pod: c"]
    );
    world.settle();
    assert_eq!(world.conditions().len(), 1);

    world.reap();
    world.settle();
    assert_eq!(
        world.conditions(),
        [
            "FailureTarget BackoffLimitExceeded",
            "Failed BackoffLimitExceeded"
        ]
    );
    assert_eq!(
        (world.counts(), world.status()["completionTime"].is_null()),
        ([0, 0, 0, 3], true)
    );
    assert_eq!(
        world.cluster.events(),
        ["Warning BackoffLimitExceeded Job has reached the specified backoff limit"]
    );
}

#[test]
fn as_many_failures_as_allowed_do_not_fail_the_job() {
    let two = [pod("a").failed(900), pod("b").failed(900)];
    assert_eq!(
        reason(
            &job(1, 3).with("/spec/backoffLimit", 2).job(),
            &pods(two.clone())
        ),
        None
    );
    assert_eq!(
        reason(
            &job(1, 3).with("/spec/backoffLimit", 1).job(),
            &pods(two.clone())
        ),
        Some("BackoffLimitExceeded".into())
    );
    let counted = job(1, 3)
        .with("/spec/backoffLimit", 2)
        .with("/status/failed", 1);
    assert_eq!(
        reason(&counted.job(), &pods(two)),
        Some("BackoffLimitExceeded".into())
    );
}

#[test]
fn restarts_of_containers_count_where_pods_are_restarted_on_failure() {
    let restarted = |phase: &str, main: i32, init: i32| {
        pod("a")
            .phase(phase)
            .with(
                "/status/containerStatuses",
                json!([{"name": "c", "restartCount": main}]),
            )
            .with(
                "/status/initContainerStatuses",
                json!([{"name": "i", "restartCount": init}]),
            )
    };
    let on_failure = job(1, 1)
        .with("/spec/template/spec/restartPolicy", "OnFailure")
        .with("/spec/backoffLimit", 3);
    let fails = |job: &Object, pod: Object| reason(&job.job(), &[pod.pod()]).is_some();
    assert!(fails(&on_failure, restarted("Running", 1, 2)));
    assert!(fails(&on_failure, restarted("Pending", 0, 3)));
    assert!(!fails(&on_failure, restarted("Running", 1, 1)));
    assert!(!fails(&on_failure, restarted("Succeeded", 9, 9)));
    assert!(!fails(
        &on_failure
            .clone()
            .with("/spec/template/spec/restartPolicy", "Never"),
        restarted("Running", 9, 9)
    ));
    let none = on_failure.with("/spec/backoffLimit", 0);
    assert!(fails(&none, restarted("Running", 1, 0)) && !fails(&none, restarted("Running", 0, 0)));
}

#[test]
fn a_job_is_requeued_for_its_deadline_and_fails_then() {
    let started = json!({"startTime": ago(40)});
    let world = World::of([
        job(1, 1)
            .with("/spec/activeDeadlineSeconds", 60)
            .with("/status", started),
        pod("a"),
    ]);
    assert_eq!(world.try_sync(), Ok(Outcome::RequeueAfter(seconds(20))));
    world.cluster.advance(seconds(20));
    world.sync();
    assert_eq!(world.conditions(), ["FailureTarget DeadlineExceeded"]);
    world.reap();
    assert_eq!(world.try_sync(), Ok(Outcome::Done));
    assert_eq!(world.conditions()[1], "Failed DeadlineExceeded");
    let message = "Warning DeadlineExceeded Job was active longer than specified deadline";
    assert_eq!(
        world.cluster.events(),
        ["Normal SuccessfulDelete Deleted pod: a", message]
    );
}

#[test]
fn a_finished_job_is_not_requeued_for_its_deadline() {
    let world = World::of([
        job(1, 1).with("/spec/activeDeadlineSeconds", 60),
        pod("a").succeeded(),
    ]);
    assert_eq!(
        (world.try_sync(), world.conditions().len()),
        (Ok(Outcome::Done), 2)
    );
}

#[test]
fn after_the_deadline_a_failed_deletion_is_retried_with_the_queues_backoff() {
    let late = job(1, 1)
        .with("/spec/activeDeadlineSeconds", 60)
        .with("/status", json!({"startTime": ago(70)}));
    let world = World::of([late, pod("a").ready(9)]);
    world
        .cluster
        .fail("delete", POD, refusal(500, "InternalError", "broken"));
    assert_eq!(
        world.try_sync(),
        Err("unable to delete pods: broken (500 InternalError)".into())
    );
    assert!(world.cluster.enqueued().is_empty());
    // No condition is written and no finalizer removed: the remaining pod could still succeed.
    assert_eq!(
        (
            world.conditions().len(),
            world.has_finalizer("a"),
            world.counts()[0]
        ),
        (0, true, 1)
    );
    assert_eq!(world.status()["ready"], 1);
    assert_eq!(
        world.cluster.events(),
        ["Warning FailedDelete Error deleting: broken"]
    );
    world.settle();
    assert_eq!(world.conditions(), ["FailureTarget DeadlineExceeded"]);
}

#[test]
fn an_earlier_verdict_is_final_whatever_pods_do_later() {
    let condition = |kind: &str, reason: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": reason}]});
    let ended = [pod("a").succeeded(), pod("b").failed(9)];
    let met = job(1, 5)
        .with("/spec/backoffLimit", 0)
        .with("/status", condition("SuccessCriteriaMet", "SuccessPolicy"));
    assert_eq!(
        reason(&met.job(), &pods(ended.clone())),
        Some("SuccessPolicy".into())
    );
    let failing = job(1, 1).with("/status", condition("FailureTarget", "DeadlineExceeded"));
    assert_eq!(
        reason(&failing.job(), &pods(ended)),
        Some("DeadlineExceeded".into())
    );

    let world = World::of([failing, pod("a").succeeded()]);
    world.settle();
    assert_eq!(
        world.conditions(),
        ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]
    );
    assert_eq!(world.counts(), [0, 0, 1, 0]);
}

#[test]
fn failure_takes_precedence_over_success() {
    let policy = json!({"rules": [{"succeededCount": 1}]});
    let both = indexed(2, 2)
        .with("/spec/backoffLimit", 0)
        .with("/spec/successPolicy", policy);
    let ended = pods([pod_of("a", 0).succeeded(), pod_of("b", 1).failed(9)]);
    assert_eq!(
        reason(&both.job(), &ended),
        Some("BackoffLimitExceeded".into())
    );
    assert_eq!(
        reason(&both.with("/spec/backoffLimit", 1).job(), &ended),
        Some("SuccessPolicy".into())
    );
}

#[test]
fn a_missing_condition_is_not_added_as_false() {
    let mut conditions = Vec::new();
    assert!(!set_condition(
        &mut conditions,
        stamped("Suspended", "False", "JobResumed", "Job resumed", NOON)
    ));
    assert!(set_condition(
        &mut conditions,
        stamped("Suspended", "True", "JobSuspended", "Job suspended", NOON)
    ));
    assert!(!set_condition(
        &mut conditions,
        stamped(
            "Suspended",
            "True",
            "JobSuspended",
            "Job suspended",
            time(9)
        )
    ));
    assert_eq!(conditions[0].last_transition_time, Some(NOON));
    assert!(set_condition(
        &mut conditions,
        stamped("Suspended", "False", "JobResumed", "Job resumed", time(9))
    ));
    assert_eq!(
        (conditions.len(), conditions[0].last_probe_time),
        (1, Some(time(9)))
    );
    assert!(set_condition(
        &mut conditions,
        stamped("Suspended", "False", "Other", "Job resumed", NOON)
    ));
    assert!(set_condition(
        &mut conditions,
        stamped("Suspended", "False", "Other", "other", NOON)
    ));
}

#[test]
fn the_limit_of_failures_has_the_apis_defaults() {
    let unset = |job: Object| {
        job.with("/spec/backoffLimit", Value::Null)
            .job()
            .backoff_limit()
    };
    assert_eq!((unset(job(1, 1)), unset(limited(1, 1, 2))), (6, i32::MAX));
}

#[test]
fn a_false_condition_is_no_verdict() {
    for kind in ["FailureTarget", "SuccessCriteriaMet"] {
        let denied = json!([{"type": kind, "status": "False", "reason": "ByHand"}]);
        let world = World::of([job(1, 1).with("/status/conditions", denied), pod("a")]);
        world.settle();
        assert_eq!((world.conditions().len(), world.counts()[0]), (0, 1));
        world.end("a", "Succeeded");
        world.settle();
        assert_eq!(
            world.conditions().last().unwrap(),
            "Complete CompletionsReached"
        );
    }
}
