//! Tests of [`progress`](super).

use flyball_sdk::prelude::*;

use super::*;
use crate::views::{ReplicaSet, SetStatus};

const NOW: i64 = 10_000;

fn now() -> Time {
    Time {
        seconds: NOW,
        nanoseconds: 500_000_000,
    }
}

/// A Deployment with a deadline of 60 seconds that wants `desired` pods; its status has the other
/// numbers.
fn deployment(desired: i64, present: i64, updated: i64, available: i64) -> Deployment {
    let status = Status {
        replicas: present,
        updated_replicas: updated,
        ready_replicas: available,
        available_replicas: available,
        ..Status::default()
    };
    Deployment {
        meta: Meta {
            name: "web".into(),
            generation: 3,
            ..Meta::default()
        },
        replicas: Some(desired),
        strategy: "RollingUpdate".into(),
        max_surge: 1.into(),
        max_unavailable: 0.into(),
        progress_deadline_seconds: Some(60),
        status,
        ..Deployment::default()
    }
}

/// The Deployment with the condition `Progressing`, last updated `ago` seconds ago.
fn saying(mut deployment: Deployment, answer: &str, reason: &str, ago: i64) -> Deployment {
    deployment.status.set(as_of(
        Time::of_seconds(NOW - ago),
        PROGRESSING,
        answer,
        reason,
        "",
    ));
    deployment
}

fn set(name: &str, desired: i64, there: i64, available: i64) -> ReplicaSet {
    let status = SetStatus {
        replicas: there,
        ready_replicas: available,
        available_replicas: available,
        ..SetStatus::default()
    };
    let meta = Meta {
        name: name.into(),
        ..Meta::default()
    };
    ReplicaSet {
        meta,
        desired: Some(desired),
        status,
        ..ReplicaSet::default()
    }
}

fn progressing(status: &Status) -> Option<(&str, &str, i64, i64)> {
    let seconds = |time: Option<Time>| time.unwrap().seconds;
    let known = status.condition(PROGRESSING)?;
    let (update, transition) = (
        seconds(known.last_update_time),
        seconds(known.last_transition_time),
    );
    Some((&known.status, &known.reason, NOW - update, NOW - transition))
}

#[test]
fn a_rollout_is_reported_as_complete_progressing_or_timed_out() {
    let old = || vec![set("old", 0, 1, 1)];
    let table = [
        // Complete: the transition time is kept if the condition was true before.
        (
            saying(deployment(3, 3, 3, 3), "True", UPDATED, 9),
            vec![],
            set("new", 3, 3, 3),
            Some(("True", COMPLETE, 0, 9)),
        ),
        (
            saying(deployment(3, 3, 3, 3), "False", TIMED_OUT, 9),
            vec![],
            set("new", 3, 3, 3),
            Some(("True", COMPLETE, 0, 0)),
        ),
        (
            deployment(3, 3, 3, 3),
            vec![],
            set("new", 3, 3, 3),
            Some(("True", COMPLETE, 0, 0)),
        ),
        // Progress: the condition is updated even if its reason stays the same.
        (
            saying(deployment(3, 3, 2, 2), "True", UPDATED, 9),
            old(),
            set("new", 3, 3, 2),
            Some(("True", UPDATED, 0, 9)),
        ),
        (
            saying(deployment(3, 3, 2, 2), "False", TIMED_OUT, 9),
            old(),
            set("new", 3, 3, 2),
            Some(("True", UPDATED, 0, 0)),
        ),
        (
            deployment(3, 3, 2, 2),
            old(),
            set("new", 3, 3, 2),
            Some(("True", UPDATED, 0, 0)),
        ),
        // No progress: the condition stays the same until the deadline is missed, and is updated
        // once then.
        (
            saying(deployment(3, 2, 2, 2), "True", UPDATED, 60),
            vec![],
            set("new", 3, 2, 2),
            Some(("False", TIMED_OUT, 0, 0)),
        ),
        (
            saying(deployment(3, 2, 2, 2), "True", UPDATED, 59),
            vec![],
            set("new", 3, 2, 2),
            Some(("True", UPDATED, 59, 59)),
        ),
        (
            saying(deployment(3, 2, 2, 2), "False", TIMED_OUT, 99),
            vec![],
            set("new", 3, 2, 2),
            Some(("False", TIMED_OUT, 99, 99)),
        ),
        (
            saying(deployment(3, 2, 2, 2), "Unknown", RESUMED, 61),
            vec![],
            set("new", 3, 2, 2),
            Some(("False", TIMED_OUT, 0, 0)),
        ),
        // Without an earlier condition there is no time to count from.
        (deployment(3, 2, 2, 2), vec![], set("new", 3, 2, 2), None),
        // Losing or adding pods after a complete rollout doesn't start another rollout. There is no deadline before the
        // next rollout shows progress.
        (
            saying(deployment(3, 3, 3, 1), "True", COMPLETE, 999),
            vec![],
            set("new", 3, 3, 2),
            Some(("True", COMPLETE, 999, 999)),
        ),
        (
            saying(deployment(3, 3, 0, 3), "True", COMPLETE, 999),
            vec![set("old", 3, 3, 3)],
            set("new", 1, 0, 0),
            Some(("True", COMPLETE, 999, 999)),
        ),
    ];
    for (at, (mut deployment, old, new, expected)) in table.into_iter().enumerate() {
        deployment.meta.generation = 0;
        let sets = Sets {
            new: Some(new),
            old,
        };
        assert_eq!(
            progressing(&rolled(&deployment, &sets, now())),
            expected,
            "row {at}"
        );
    }
}

#[test]
fn messages_name_the_new_set_or_else_the_deployment() {
    let message = |deployment: &Deployment, sets: &Sets| {
        rolled(deployment, sets, now())
            .condition(PROGRESSING)
            .unwrap()
            .message
            .clone()
    };
    let complete = Sets {
        new: Some(set("web-1", 3, 3, 3)),
        old: vec![],
    };
    assert_eq!(
        message(&deployment(3, 2, 2, 2), &complete),
        "ReplicaSet \"web-1\" has successfully progressed."
    );
    let going = Sets {
        new: Some(set("web-1", 3, 3, 2)),
        old: vec![],
    };
    assert_eq!(
        message(&deployment(3, 2, 2, 2), &going),
        "ReplicaSet \"web-1\" is progressing."
    );
    let late = saying(deployment(3, 3, 3, 2), "True", UPDATED, 99);
    assert_eq!(
        message(&late, &going),
        "ReplicaSet \"web-1\" has timed out progressing."
    );
    assert_eq!(
        message(&deployment(0, 3, 3, 3), &Sets::default()),
        "Deployment \"web\" has successfully progressed."
    );
}

#[test]
fn without_a_deadline_progress_is_not_reported() {
    for deadline in [None, Some(i64::from(i32::MAX))] {
        let mut deployment = saying(deployment(3, 2, 2, 2), "True", UPDATED, 9);
        deployment.progress_deadline_seconds = deadline;
        let sets = Sets {
            new: Some(set("new", 3, 3, 3)),
            old: vec![],
        };
        assert_eq!(progressing(&rolled(&deployment, &sets, now())), None);
        assert_eq!(requeue_after(&deployment, now()), None);
        record(&mut deployment, Step::Created("new"), now());
        record_pause(
            &mut Deployment {
                paused: true,
                ..deployment.clone()
            },
            now(),
        );
        assert_eq!(deployment.status.reason(PROGRESSING), UPDATED);
    }
}

#[test]
fn counting_sets_the_observed_generation_and_keeps_the_collision_count() {
    let mut deployment = deployment(3, 0, 0, 0);
    deployment.status.collision_count = Some(2);
    let status = counted(
        &deployment,
        &Sets {
            new: Some(set("new", 3, 3, 2)),
            old: vec![],
        },
        now(),
    );
    assert_eq!(
        (
            status.observed_generation,
            status.collision_count,
            status.unavailable_replicas
        ),
        (3, Some(2), 1)
    );
}

#[test]
fn availability_allows_for_max_unavailable() {
    for (unavailable, available, expected) in [
        (0, 3, ("True", "MinimumReplicasAvailable")),
        (0, 2, ("False", "MinimumReplicasUnavailable")),
        (1, 2, ("True", "MinimumReplicasAvailable")),
    ] {
        let deployment = Deployment {
            max_unavailable: unavailable.into(),
            ..deployment(3, 3, 3, 3)
        };
        let status = counted(
            &deployment,
            &Sets {
                new: Some(set("new", 3, 3, available)),
                old: vec![],
            },
            now(),
        );
        let condition = status.condition(AVAILABLE).unwrap();
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_str()),
            expected
        );
    }
}

#[test]
fn unchanged_counts_return_the_same_status() {
    let mut deployment = deployment(3, 0, 0, 0);
    let sets = Sets {
        new: Some(set("new", 3, 3, 2)),
        old: vec![],
    };
    deployment.status = rolled(&deployment, &sets, now());
    let later = now() + Duration::from_secs(7);
    assert_eq!(rolled(&deployment, &sets, later), deployment.status);
    // The same after serialising and deserialising it.
    let read: Status = serde_json::from_value(json!(deployment.status)).unwrap();
    assert_eq!(read, deployment.status);
}

#[test]
fn a_sets_failure_is_copied_new_set_first_and_removed_when_it_ends() {
    let failing = |name: &str, reason: &str| {
        let mut set = set(name, 1, 0, 0);
        let condition = as_of(Time::of_seconds(5), REPLICA_FAILURE, "True", reason, name);
        set.status.conditions = vec![Condition {
            last_update_time: None,
            ..condition
        }];
        set
    };
    let mut deployment = deployment(1, 0, 0, 0);
    for (old, new, expected) in [
        (failing("old", "Old"), set("new", 1, 0, 0), "Old"),
        (failing("old", "Old"), failing("new", "New"), "New"),
        (set("old", 1, 0, 0), set("new", 1, 0, 0), ""),
    ] {
        deployment.status = rolled(
            &deployment,
            &Sets {
                new: Some(new),
                old: vec![old],
            },
            now(),
        );
        assert_eq!(deployment.status.reason(REPLICA_FAILURE), expected);
        if let Some(copied) = deployment.status.condition(REPLICA_FAILURE) {
            assert_eq!(copied.last_update_time, Some(Time::of_seconds(5)));
        }
    }
}

#[test]
fn pausing_and_resuming_stop_the_clock() {
    for (paused, answer, reason, expected) in [
        (true, "True", UPDATED, PAUSED),
        (true, "Unknown", PAUSED, PAUSED),
        (false, "Unknown", PAUSED, RESUMED),
        (false, "True", UPDATED, UPDATED),
        (true, "False", TIMED_OUT, TIMED_OUT),
        (false, "False", TIMED_OUT, TIMED_OUT),
    ] {
        let mut deployment = Deployment {
            paused,
            ..saying(deployment(3, 3, 3, 3), answer, reason, 9)
        };
        record_pause(&mut deployment, now());
        assert_eq!(deployment.status.reason(PROGRESSING), expected);
        let since = if expected == reason { 9 } else { 0 };
        assert_eq!(progressing(&deployment.status).unwrap().2, since);
    }
    let mut fresh = Deployment {
        paused: true,
        ..deployment(3, 0, 0, 0)
    };
    record_pause(&mut fresh, now());
    assert_eq!(
        fresh.status.condition(PROGRESSING).unwrap().status,
        "Unknown"
    );
}

#[test]
fn steps_are_recorded_and_found_only_without_an_earlier_condition() {
    let mut fresh = deployment(3, 0, 0, 0);
    record(&mut fresh, Step::Found("web-1"), now());
    assert_eq!(
        fresh.status.condition(PROGRESSING).unwrap().message,
        "Found new replica set \"web-1\""
    );
    record(&mut fresh, Step::CreateFailed("no quota"), now());
    let failed = fresh.status.condition(PROGRESSING).unwrap();
    assert_eq!(
        (failed.status.as_str(), failed.reason.as_str()),
        ("False", CREATE_FAILED)
    );
    assert_eq!(failed.message, "no quota");
    record(&mut fresh, Step::Found("web-1"), now());
    assert_eq!(fresh.status.reason(PROGRESSING), CREATE_FAILED);
    record(&mut fresh, Step::Created("web-1"), now());
    assert_eq!(
        fresh.status.condition(PROGRESSING).unwrap().message,
        "Created new replica set \"web-1\""
    );
}

#[test]
fn the_requeue_is_a_second_after_the_deadline_and_only_if_it_applies() {
    let half = Duration::from_millis(500);
    for (deployment, expected) in [
        (
            saying(deployment(3, 3, 2, 2), "True", UPDATED, 10),
            Some(Duration::from_secs(50) + half),
        ),
        (
            saying(deployment(3, 3, 2, 2), "False", CREATE_FAILED, 59),
            Some(Duration::from_secs(1) + half),
        ),
        (saying(deployment(3, 3, 2, 2), "False", TIMED_OUT, 10), None),
        (saying(deployment(3, 3, 2, 2), "True", COMPLETE, 10), None),
        (saying(deployment(3, 3, 2, 2), "True", COMPLETE, 999), None),
        (deployment(3, 3, 2, 2), None),
    ] {
        assert_eq!(requeue_after(&deployment, now()), expected);
    }
    let mut complete = saying(deployment(3, 3, 3, 3), "True", UPDATED, 10);
    complete.status.observed_generation = 3;
    assert_eq!(requeue_after(&complete, now()), None);
}
