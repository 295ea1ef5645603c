//! Native tests of the whole controller.

use std::time::Duration;

use flyball_sdk::imports::MetricOperation;
use flyball_sdk::log::Level;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal, set_at};
use ttl_after_finished_controller::TtlAfterFinished;

const JOB: &str = "batch/v1/Job";
const GET: &str = "get batch/v1/Job default/work";
const DELETE: &str = "delete batch/v1/Job default/work";
/// The cluster's clock is at this time.
const NOW: &str = "2026-01-01T00:00:00Z";

/// A Job with a time to live of 15 s, and this condition since this time.
fn job(condition: &str, since: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job",
           "metadata": {"name": "work", "namespace": "default", "uid": "uid-work"},
           "spec": {"ttlSecondsAfterFinished": 15},
           "status": {"conditions": [
               {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
               {"type": condition, "status": "True", "lastTransitionTime": since}]}})
}

/// A Job that is 5 s past its expiry.
fn expired() -> Value {
    job("Complete", "2025-12-31T23:59:40Z")
}

fn with(mut job: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut job, pointer, value);
    job
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<TtlAfterFinished>("default/work")
}

/// Reconciles a Job and returns after how many seconds it is reconciled again; `None` if it is not.
fn rest(job: Value) -> Option<u64> {
    let cluster = Cluster::with([job]);
    let outcome = reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
    match outcome {
        Outcome::Done => None,
        Outcome::RequeueAfter(rest) => Some(rest.as_secs()),
    }
}

#[test]
fn an_expired_job_is_deleted_after_its_pods() {
    for condition in ["Complete", "Failed"] {
        let cluster = Cluster::with([job(condition, "2025-12-31T23:59:40Z")]);
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert_eq!(cluster.live_reads(), [GET]);
        let writes = cluster.writes();
        assert_eq!(
            writes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [DELETE]
        );
        assert_eq!(
            writes[0].options,
            json!({"propagationPolicy": "Foreground", "preconditions": {"uid": "uid-work"}})
        );
        assert_eq!(
            cluster.metrics(),
            [(
                MetricOperation::Observe,
                "ttl_after_finished_controller_job_deletion_duration_seconds".to_owned(),
                vec![],
                5.0
            )]
        );
    }
}

#[test]
fn a_job_that_is_being_deleted_is_left_alone() {
    let cluster = Cluster::with([expired()]);
    reconcile(&cluster).unwrap();
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [DELETE]);
    assert_eq!(
        rest(with(expired(), "/metadata/deletionTimestamp", NOW)),
        None
    );
}

#[test]
fn a_job_waits_for_the_rest_of_its_time_to_live() {
    for condition in ["Complete", "Failed"] {
        assert_eq!(rest(job(condition, NOW)), Some(15));
        assert_eq!(rest(job(condition, "2025-12-31T23:59:50Z")), Some(5));
    }
    let cluster = Cluster::with([job("Complete", NOW)]);
    cluster.advance(Duration::from_millis(14_600));
    assert_eq!(
        reconcile(&cluster).unwrap(),
        Outcome::RequeueAfter(Duration::from_millis(400))
    );
}

#[test]
fn a_job_expires_at_once_with_a_time_to_live_of_zero_and_at_the_last_instant_of_another() {
    for job in [
        with(job("Failed", NOW), "/spec/ttlSecondsAfterFinished", 0),
        job("Complete", "2025-12-31T23:59:45Z"),
    ] {
        let cluster = Cluster::with([job]);
        reconcile(&cluster).unwrap();
        assert_eq!(cluster.written(), [DELETE]);
        assert_eq!(cluster.metrics()[0].3, 0.0);
    }
}

#[test]
fn unfinished_jobs_and_jobs_without_a_time_to_live_are_kept() {
    let long_ago = "2020-01-01T00:00:00Z";
    for kept in [
        job("Suspended", long_ago),
        job("FailureTarget", long_ago),
        with(expired(), "/status/conditions/1/status", "False"),
        with(expired(), "/status", json!({})),
        with(expired(), "/spec", json!({})),
    ] {
        assert_eq!(rest(kept), None);
    }
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
}

#[test]
fn a_false_condition_does_not_hide_a_true_one() {
    let both = json!([{"type": "Complete", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"},
                      {"type": "Failed", "status": "True", "lastTransitionTime": NOW}]);
    assert_eq!(rest(with(expired(), "/status/conditions", both)), Some(15));
}

#[test]
fn a_finish_time_in_the_future_is_logged_and_waited_for() {
    let cluster = Cluster::with([job("Complete", "2026-01-01T00:01:00Z")]);
    assert_eq!(
        reconcile(&cluster).unwrap(),
        Outcome::RequeueAfter(Duration::from_secs(75))
    );
    let logged = cluster.logged();
    assert!(
        logged[0].0 == Level::Info && logged[0].1.contains("default/work finished in the future"),
        "{logged:?}"
    );
}

#[test]
fn a_missing_finish_time_is_an_error_that_is_retried_if_the_job_has_a_time_to_live() {
    let bare = with(
        expired(),
        "/status/conditions",
        json!([{"type": "Complete", "status": "True"}]),
    );
    let error = reconcile(&Cluster::with([bare.clone()])).unwrap_err();
    assert!(!error.is_terminal());
    assert_eq!(
        error.to_string(),
        "unable to find the time when the Job default/work finished"
    );
    assert_eq!(rest(with(bare.clone(), "/spec", json!({}))), None);
    assert_eq!(rest(with(bare, "/metadata/deletionTimestamp", NOW)), None);
}

#[test]
fn the_time_to_live_of_the_live_job_counts() {
    for (live, outcome) in [
        (
            with(expired(), "/spec/ttlSecondsAfterFinished", 100),
            Outcome::RequeueAfter(Duration::from_secs(80)),
        ),
        (with(expired(), "/spec", json!({})), Outcome::Done),
        (
            with(expired(), "/metadata/deletionTimestamp", NOW),
            Outcome::Done,
        ),
        (
            with(
                with(expired(), "/metadata/uid", "new"),
                "/status",
                json!({}),
            ),
            Outcome::Done,
        ),
    ] {
        let cluster = Cluster::with([expired()]);
        cluster.put_live(live);
        assert_eq!(reconcile(&cluster).unwrap(), outcome);
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn a_job_that_was_deleted_meanwhile_is_done() {
    let cluster = Cluster::with([expired()]);
    cluster.remove_live(JOB, "default", "work");
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert!(cluster.written().is_empty());

    let cluster = Cluster::with([expired()]);
    cluster.fail("delete", JOB, refusal(404, "NotFound"));
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert!(cluster.metrics().is_empty());
}

#[test]
fn failures_are_retried() {
    for (verb, status, reason) in [("get", 500, "InternalError"), ("delete", 409, "Conflict")] {
        let cluster = Cluster::with([expired()]);
        cluster.fail(verb, JOB, refusal(status, reason));
        assert!(!reconcile(&cluster).unwrap_err().is_terminal());
        assert!(cluster.metrics().is_empty());
        assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
        assert_eq!(cluster.metrics().len(), 1);
    }
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = TtlAfterFinished::describe();
    description.check().unwrap();
    assert_eq!(description.queues[0].name, "ttl_jobs_to_delete");
    assert_eq!(description.concurrency, 5);
    assert_eq!(permissions(&description), ["batch/v1/Job  delete,get"]);
    let flyball_sdk::describe::MetricType::Histogram(buckets) = &description.metrics[0].metric_type
    else {
        panic!("it is a histogram");
    };
    assert_eq!((buckets.len(), buckets[0], buckets[13]), (14, 0.1, 819.2));
}
