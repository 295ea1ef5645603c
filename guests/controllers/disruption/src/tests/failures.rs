//! Failures: a budget whose status can't be computed allows no disruption.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::{BUDGET, START, UPDATE, World, controlled, pod};

const STATUS: &str = "policy/v1/PodDisruptionBudget/status";
const JOB: &str = "batch/v1/Job";

/// A budget in percent of a Job's pod. Its status allowed disruptions before.
fn failing() -> World {
    let world = World::with(
        json!({"minAvailable": "50%"}),
        [controlled(pod("pod"), JOB, "job")],
    );
    world.cluster.serve(JOB, "jobs", true, &["get"]);
    world.set_status(json!({
        "observedGeneration": 1, "disruptionsAllowed": 2, "currentHealthy": 4, "desiredHealthy": 2, "expectedPods": 4,
        "disruptedPods": {"pod": START},
        "conditions": [{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
                        "observedGeneration": 1, "lastTransitionTime": "2025-12-31T00:00:00Z"}],
    }));
    world
}

#[test]
fn a_failure_allows_no_disruption_and_keeps_the_rest_of_the_status() {
    let world = failing();
    world.cluster.edit(BUDGET, "team", "budget", |budget| {
        budget["metadata"]["generation"] = 2.into();
    });
    world.sync();
    assert_eq!(
        world.status(),
        json!({
            "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 4, "desiredHealthy": 2,
            "expectedPods": 4, "disruptedPods": {"pod": START},
            "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed",
                            "message": "jobs.batch does not implement the scale subresource",
                            "observedGeneration": 1, "lastTransitionTime": START}],
        })
    );
    assert!(world.cluster.enqueued().is_empty());
}

#[test]
fn a_repeated_failure_writes_nothing() {
    let world = failing();
    world.sync();
    world.cluster.advance(Duration::from_secs(1));
    world.sync();
    assert_eq!(world.cluster.written(), [UPDATE]);
}

#[test]
fn a_new_budget_that_fails_has_no_observed_generation() {
    let world = World::with(
        json!({"minAvailable": "50%"}),
        [controlled(pod("pod"), JOB, "job")],
    );
    world.sync();
    assert_eq!(world.numbers(), [0, 0, 0, 0]);
    let status = world.status();
    assert_eq!(status["observedGeneration"], 0);
    assert_eq!(status["conditions"][0].get("observedGeneration"), None);
}

#[test]
fn the_budget_recovers_from_a_failure() {
    let world = failing();
    world.sync();
    world.cluster.edit(BUDGET, "team", "budget", |budget| {
        budget["spec"]["minAvailable"] = 1.into();
        budget["metadata"]["generation"] = 2.into();
        budget["status"]["disruptedPods"] = Value::Null;
    });
    world.sync();
    assert_eq!(world.numbers(), [0, 1, 1, 1]);
    assert_eq!(world.condition(), "False InsufficientPods: ");
    assert_eq!(world.status()["observedGeneration"], 2);
}

#[test]
fn an_invalid_selector_is_a_failure() {
    for selector in [
        json!({"matchLabels": {"k8s.io/too/many/slashes": "value"}}),
        json!({"matchExpressions": [{"key": "foo", "operator": "illegal", "values": ["bar"]}]}),
    ] {
        let world = World::with(
            json!({"minAvailable": 3, "selector": selector}),
            [pod("pod")],
        );
        world.sync();
        assert_eq!(world.numbers(), [0, 0, 0, 0]);
        assert!(world.condition().starts_with("False SyncFailed: "));
        let events = world.events();
        assert_eq!(events.len(), 1);
        assert!(
            events[0].starts_with("Warning NoPods Failed to get pods: "),
            "{events:?}"
        );
    }
}

#[test]
fn a_text_that_is_no_percentage_is_a_failure() {
    let world = World::with(json!({"maxUnavailable": "some"}), [pod("pod")]);
    world.sync();
    assert!(world.condition().starts_with("False SyncFailed: "));
    assert!(
        world.events()[0]
            .starts_with("Warning CalculateExpectedPodCountFailed Failed to calculate ")
    );
}

#[test]
fn a_refused_write_is_followed_by_one_that_allows_no_disruption() {
    let world = World::with(json!({"minAvailable": 0}), [pod("pod")]);
    world
        .cluster
        .fail("update", STATUS, refusal(500, "InternalError"));
    world.sync();
    assert_eq!(world.numbers(), [0, 0, 0, 0]);
    assert_eq!(
        world.condition(),
        "False SyncFailed: the test refuses this: InternalError"
    );
    world.sync();
    assert_eq!(world.numbers(), [1, 1, 0, 1]);
}

#[test]
fn a_failure_that_can_t_be_written_is_retried() {
    for error in [refusal(409, "Conflict"), refusal(500, "InternalError")] {
        let world = failing();
        world.cluster.fail("update", STATUS, error);
        assert!(!world.try_sync().unwrap_err().is_terminal());
        world.sync();
        assert!(world.condition().starts_with("False SyncFailed: "));
    }
}

#[test]
fn a_conflict_is_retried_and_no_failure_is_written() {
    let world = World::with(json!({"minAvailable": 0}), [pod("pod")]);
    world
        .cluster
        .fail("update", STATUS, refusal(409, "Conflict"));
    world.try_sync().unwrap_err();
    assert_eq!(world.cluster.written().len(), 1);
    assert_eq!(world.status(), Value::Null);
    world.sync();
    assert_eq!(world.numbers(), [1, 1, 0, 1]);
}

#[test]
fn a_deleted_budget_is_ignored() {
    let world = World::of([pod("pod")]);
    world.sync();
    world.sync_of("notexist");
    assert!(world.cluster.written().is_empty() && world.events().is_empty());
}
