//! The status and its condition.

use std::time::Duration;

use flyball_sdk::prelude::*;

use super::world::{BUDGET, START, UPDATE, World, pod};

#[test]
fn the_status_is_written_whole_with_the_condition() {
    let world = World::with(json!({"minAvailable": 1}), [pod("a"), pod("b")]);
    world.sync();
    let condition = json!({"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
                           "observedGeneration": 1, "lastTransitionTime": START});
    assert_eq!(
        world.status(),
        json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
               "expectedPods": 2, "conditions": [condition]})
    );
    world.cluster.advance(Duration::from_secs(5));
    world.set_ready("a", "False");
    world.sync();
    let condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                           "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:05Z"});
    assert_eq!(world.status()["conditions"], json!([condition]));
}

#[test]
fn the_transition_time_stays_with_the_status_of_the_condition() {
    let world = World::with(json!({"minAvailable": 1}), [pod("a"), pod("b")]);
    world.sync();
    world.cluster.advance(Duration::from_secs(5));
    world.cluster.put(pod("c"));
    world.sync();
    assert_eq!(world.numbers(), [2, 3, 1, 3]);
    assert_eq!(world.status()["conditions"][0]["lastTransitionTime"], START);
}

#[test]
fn an_unchanged_status_is_not_written() {
    let world = World::with(json!({"minAvailable": 1}), [pod("a"), pod("b")]);
    world.sync();
    world.cluster.advance(Duration::from_secs(60));
    world.sync();
    assert_eq!(world.cluster.written(), [UPDATE]);
    // The API server writes an empty map, and another client a message.
    world.cluster.edit(BUDGET, "team", "budget", |budget| {
        budget["status"]["disruptedPods"] = json!({});
        budget["status"]["conditions"][0]["message"] = "all is well".into();
    });
    world.sync();
    assert!(world.cluster.written().is_empty());
}

#[test]
fn each_part_of_the_status_is_corrected() {
    for (pointer, value) in [
        ("/observedGeneration", json!(0)),
        ("/disruptionsAllowed", json!(0)),
        ("/currentHealthy", json!(1)),
        ("/desiredHealthy", json!(3)),
        ("/expectedPods", json!(1)),
        ("/disruptedPods", json!({"gone": START})),
        ("/conditions", json!([])),
        ("/conditions", Value::Null),
        ("/conditions/0/status", json!("False")),
        ("/conditions/0/reason", json!("InsufficientPods")),
        ("", Value::Null),
    ] {
        let world = World::with(json!({"minAvailable": 1}), [pod("a"), pod("b")]);
        world.sync();
        let right = world.status();
        let mut wrong = right.clone();
        flyball_sdk::testing::set_at(&mut wrong, pointer, value);
        world.set_status(wrong);
        world.sync();
        assert_eq!(world.cluster.written(), [UPDATE, UPDATE], "{pointer}");
        assert_eq!(world.status(), right, "{pointer}");
    }
}

#[test]
fn a_new_generation_is_observed_even_if_nothing_else_changes() {
    let world = World::with(json!({"minAvailable": 1}), [pod("a"), pod("b")]);
    world.sync();
    world.cluster.edit(BUDGET, "team", "budget", |budget| {
        budget["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
        budget["metadata"]["generation"] = 2.into();
    });
    world.sync();
    let status = world.status();
    assert_eq!(status["observedGeneration"], 2);
    assert_eq!(status["conditions"][0]["observedGeneration"], 2);
    assert_eq!(status["conditions"][0]["lastTransitionTime"], START);
}

#[test]
fn conditions_of_other_types_are_kept() {
    let world = World::with(json!({"minAvailable": 3, "selector": {}}), []);
    let theirs = json!({"type": "ExistingTestCondition", "status": "True", "reason": "Test",
                        "message": "This is a test condition", "lastTransitionTime": START});
    world.set_status(json!({"conditions": [theirs]}));
    world.sync();
    assert_eq!(world.numbers(), [0, 0, 3, 0]);
    let conditions = world.status()["conditions"].take();
    assert_eq!(conditions[0], theirs);
    assert_eq!(conditions[1]["type"], "DisruptionAllowed");
    assert_eq!(conditions.as_array().unwrap().len(), 2);
}

#[test]
fn a_budget_without_pods_reports_it_at_each_reconcile() {
    let world = World::with(json!({"maxUnavailable": 1}), []);
    world.sync();
    world.sync();
    let event = "Normal NoPods No matching pods found";
    assert_eq!(world.events(), [event, event]);
    assert_eq!(world.numbers(), [0, 0, 0, 0]);
    assert_eq!(world.cluster.written(), [UPDATE]);
}
