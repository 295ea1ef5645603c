//! The status.

use std::time::Duration;

use flyball_sdk::serde_json;

use super::*;
use crate::scale::Failure;
use crate::status::{Known, next_availability, status};
use crate::views::Status;

fn status_of(set: &Object, active: &[Object], failure: Option<&Failure>) -> Status {
    status(
        &set.set(),
        &Known {
            active: &pods(active),
            terminating: Some(0),
            failure,
            now: NOON,
        },
    )
}

#[test]
fn pods_are_counted_by_their_properties() {
    let set = web(9).with("/spec/minReadySeconds", 60);
    let active = [
        pod("pending").phase("Pending"),
        pod("bare").labels(json!({"app": "web"})).ready(60),
        pod("more")
            .labels(json!({"app": "web", "tier": "front", "x": "y"}))
            .ready(59),
        pod("not-ready").with(
            "/status/conditions",
            json!([{"type": "Ready", "status": "False"}]),
        ),
    ];
    let known = Known {
        active: &pods(&active),
        terminating: Some(3),
        failure: None,
        now: NOON,
    };
    assert_eq!(
        status(&set.set(), &known),
        Status {
            replicas: 4,
            fully_labeled_replicas: 3,
            ready_replicas: 2,
            available_replicas: 1,
            terminating_replicas: Some(3),
            observed_generation: 2,
            conditions: vec![],
        }
    );
}

#[test]
fn without_a_count_there_are_no_terminating_replicas() {
    let known = Known {
        active: &[],
        terminating: None,
        failure: None,
        now: NOON,
    };
    let status = status(&web(0).set(), &known);
    assert_eq!(
        serde_json::to_value(status)
            .unwrap()
            .get("terminatingReplicas"),
        None
    );
}

#[test]
fn without_min_ready_seconds_a_ready_pod_is_available_at_once() {
    let since_never = pod("a").with(
        "/status/conditions",
        json!([{"type": "Ready", "status": "True"}]),
    );
    assert_eq!(
        status_of(&web(1), std::slice::from_ref(&since_never), None).available_replicas,
        1
    );
    let patient = web(1).with("/spec/minReadySeconds", 1);
    assert_eq!(
        status_of(&patient, &[since_never], None).available_replicas,
        0
    );
}

#[test]
fn a_status_is_written_whole_including_zeros() {
    assert_eq!(
        serde_json::to_value(status_of(&web(0), &[], None)).unwrap(),
        json!({"replicas": 0, "fullyLabeledReplicas": 0, "readyReplicas": 0, "availableReplicas": 0,
               "terminatingReplicas": 0, "observedGeneration": 2, "conditions": []})
    );
}

#[test]
fn a_status_round_trips() {
    let failure = Failure {
        reason: "FailedCreate",
        message: "no".into(),
    };
    let written = status_of(&web(1), &[], Some(&failure));
    // The server omits zeros.
    let read = web(1).with(
        "/status",
        json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 2, "conditions": written.conditions}),
    );
    assert_eq!(read.set().status, written);
    assert_ne!(
        read.with("/status/terminatingReplicas", Value::Null)
            .set()
            .status,
        written
    );
}

fn foreign() -> Value {
    json!({"type": "Foreign", "status": "Unknown", "lastTransitionTime": ago(5), "reason": "R", "message": "m"})
}

#[test]
fn the_first_failure_adds_a_condition_and_keeps_others() {
    let set = web(1).with("/status/conditions", json!([foreign()]));
    let failure = Failure {
        reason: "FailedCreate",
        message: "exceeded quota".into(),
    };
    let conditions = status_of(&set, &[], Some(&failure)).conditions;
    let ours = json!({"type": "ReplicaFailure", "status": "True", "lastTransitionTime": ago(0),
                      "reason": "FailedCreate", "message": "exceeded quota"});
    assert_eq!(
        serde_json::to_value(conditions).unwrap(),
        json!([foreign(), ours])
    );
}

#[test]
fn a_second_failure_keeps_the_condition_and_success_removes_it() {
    let old = json!({"type": "ReplicaFailure", "status": "True", "lastTransitionTime": ago(99),
                     "reason": "FailedCreate", "message": "first"});
    let set = web(1).with("/status/conditions", json!([old, foreign()]));
    let failure = Failure {
        reason: "FailedDelete",
        message: "second".into(),
    };
    assert_eq!(
        serde_json::to_value(status_of(&set, &[], Some(&failure)).conditions).unwrap(),
        json!([old, foreign()])
    );
    assert_eq!(
        serde_json::to_value(status_of(&set, &[], None).conditions).unwrap(),
        json!([foreign()])
    );
}

fn next(min_ready: u32, active: &[Object], later_by_ms: u64) -> Option<u128> {
    let set = web(1).with("/spec/minReadySeconds", min_ready);
    let status = status_of(&set, active, None);
    let now = NOON + Duration::from_millis(later_by_ms);
    next_availability(&set.set(), &pods(active), &status, NOON, now).map(|delay| delay.as_millis())
}

#[test]
fn the_requeue_is_when_the_next_pod_becomes_available() {
    let ready = [
        pod("a").ready(2),
        pod("b").ready(4),
        pod("c").ready(60),
        pod("d"),
    ];
    assert_eq!(next(5, &ready, 0), Some(1000));
    assert_eq!(next(5, &ready, 300), Some(700));
    // It became available while the status was written.
    assert_eq!(next(5, &ready, 1500), Some(0));
}

#[test]
fn there_is_no_requeue_when_all_ready_pods_are_available() {
    assert_eq!(next(0, &[pod("a").ready(0)], 0), None);
    assert_eq!(next(5, &[pod("a").ready(5), pod("b")], 0), None);
}

#[test]
fn a_ready_pod_without_a_time_is_checked_after_min_ready_seconds() {
    let unknown = pod("a").with(
        "/status/conditions",
        json!([{"type": "Ready", "status": "True"}]),
    );
    assert_eq!(next(7, &[unknown], 0), Some(7000));
}

#[test]
fn a_status_repeats_another_of_the_same_counts() {
    let terminating = |count, generation| Status {
        terminating_replicas: count,
        observed_generation: generation,
        ..Status::default()
    };
    assert!(terminating(None, 1).repeats(&terminating(Some(0), 2)));
    assert!(terminating(Some(1), 1).repeats(&terminating(Some(1), 2)));
    assert!(!terminating(None, 1).repeats(&terminating(Some(1), 1)));
    assert!(!terminating(Some(1), 1).repeats(&terminating(Some(2), 1)));
}
