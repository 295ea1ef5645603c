//! Conditions over several reconciles, and failures to write them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::{STATUS, USAGE, World};

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let world = World::by_cpu();
    let since = |kind: &str| {
        let status = world.status();
        let conditions = status["conditions"].as_array().unwrap().clone();
        let own = conditions.iter().find(|own| own["type"] == kind).unwrap();
        own["lastTransitionTime"].as_str().unwrap().to_owned()
    };
    world.uses("500m");
    world.sync();
    assert_eq!(since("ScalingActive"), "2026-01-01T00:00:15Z");
    world.uses("800m");
    world.sync();
    assert_eq!(since("ScalingActive"), "2026-01-01T00:00:15Z");
    world.cluster.put_raw(USAGE, json!({"items": []}));
    world.sync();
    assert_eq!(since("ScalingActive"), "2026-01-01T00:00:45Z");
    assert_eq!(since("AbleToScale"), "2026-01-01T00:00:15Z");
}

#[test]
fn the_status_has_the_generation_that_it_is_about() {
    let world = World::by_cpu();
    world.uses("500m");
    world.edit(|web| web["metadata"]["generation"] = 4.into());
    world.sync();
    assert_eq!(world.status()["observedGeneration"], 4);
    let gate = "feature-gates.HPAGeneration";
    world.cluster.set_config(gate, "false");
    world.sync();
    assert_eq!(world.status()["observedGeneration"], Value::Null);
}

#[test]
fn conditions_are_in_the_order_in_which_they_were_first_set() {
    let world = World::by_cpu();
    world.uses("500m");
    world.sync();
    let status = world.status();
    let types: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| own["type"].clone())
        .collect();
    assert_eq!(types, ["AbleToScale", "ScalingActive", "ScalingLimited"]);
    assert_eq!(
        world.condition("ScalingLimited"),
        "False DesiredWithinRange: the desired count is within the acceptable range"
    );
}

#[test]
fn a_status_that_is_refused_is_reported_and_the_period_kept() {
    let world = World::by_cpu();
    world.uses("500m");
    let kind = "autoscaling/v2/HorizontalPodAutoscaler/status";
    world.cluster.fail("update", kind, refusal(409, "Conflict"));
    world.sync();
    assert_eq!(world.written(), [STATUS]);
    assert_eq!(
        world.cluster.events(),
        ["Warning FailedUpdateStatus the test refuses this: Conflict"]
    );
    let logged = world.cluster.logged();
    assert!(
        logged[0].1.contains("failed to update status for web"),
        "{logged:?}"
    );
}

#[test]
fn values_of_metrics_are_compared_and_not_their_notation() {
    let world = World::by_cpu();
    world.uses("500m");
    world.sync();
    world.edit(|web| {
        let current = &mut web["status"]["currentMetrics"][0]["resource"]["current"];
        current["averageValue"] = "0.5".into();
    });
    world.cluster.writes();
    world.sync();
    assert!(world.written().is_empty());
}
