//! The limits of a change: windows, rates and bounds.

use std::time::Duration;

use flyball_sdk::prelude::*;

use super::world::{World, cpu};
use crate::history::{History, Recommendation};
use crate::limits::{least_after, limit, most_after};
use crate::settings::Settings;
use crate::views::{Rules, Spec};

fn spec(value: Value) -> Spec {
    flyball_sdk::serde_json::from_value(value).unwrap()
}

fn now() -> Time {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn ago(seconds: u64) -> Time {
    now() - Duration::from_secs(seconds)
}

/// The replicas and the reasons of the two conditions.
fn limited(
    spec: &Spec,
    current: i32,
    desired: i32,
    history: &mut History,
) -> (i32, String, String) {
    let limited = limit(spec, current, desired, history, &Settings::default(), now());
    let text = |condition: Condition| format!("{} {}", condition.status, condition.reason);
    (limited.replicas, text(limited.able), text(limited.limited))
}

fn check(found: (i32, String, String), replicas: i32, able: &str, limited: &str) {
    assert_eq!(
        found,
        (replicas, format!("True {able}"), limited.to_owned())
    );
}

#[test]
fn the_bounds_and_the_default_rate_limit_a_change() {
    let spec = spec(json!({"minReplicas": 2, "maxReplicas": 20}));
    let of = |current, desired| limited(&spec, current, desired, &mut History::default());
    check(of(3, 5), 5, "ReadyForNewScale", "False DesiredWithinRange");
    check(of(3, 7), 6, "ReadyForNewScale", "True ScaleUpLimit");
    check(of(1, 9), 4, "ReadyForNewScale", "True ScaleUpLimit");
    check(of(10, 30), 20, "ReadyForNewScale", "True TooManyReplicas");
    check(of(3, 1), 2, "ReadyForNewScale", "True TooFewReplicas");
    check(
        of(i32::MAX, i32::MAX),
        20,
        "ReadyForNewScale",
        "True TooManyReplicas",
    );
}

#[test]
fn the_highest_recommendation_of_the_window_prevails() {
    let spec = spec(json!({"minReplicas": 1, "maxReplicas": 20}));
    let mut history = History {
        recommendations: vec![
            Recommendation::new(9, ago(301)),
            Recommendation::new(6, ago(300)),
            Recommendation::new(5, ago(10)),
        ],
        ..History::default()
    };
    check(
        limited(&spec, 8, 2, &mut history),
        6,
        "ScaleDownStabilized",
        "False DesiredWithinRange",
    );
    // The new one takes the place of the outdated one.
    assert_eq!(history.recommendations.len(), 3);
    assert_eq!(history.recommendations[0], Recommendation::new(2, now()));
    limited(&spec, 8, 2, &mut history);
    assert_eq!(history.recommendations.len(), 4);
}

#[test]
fn windows_of_both_directions_hold_the_replicas() {
    let spec = spec(json!({"maxReplicas": 20, "behavior": {
        "scaleUp": {"stabilizationWindowSeconds": 100, "policies": [{"type": "Pods", "value": 50, "periodSeconds": 60}]},
        "scaleDown": {"stabilizationWindowSeconds": 200, "policies": [{"type": "Pods", "value": 50, "periodSeconds": 60}]}}}));
    let of = |current, desired, history: &[(i32, u64)]| {
        let recommendation =
            |&(replicas, age): &(i32, u64)| Recommendation::new(replicas, ago(age));
        let mut history = History {
            recommendations: history.iter().map(recommendation).collect(),
            ..History::default()
        };
        limited(&spec, current, desired, &mut history)
    };
    let within = "False DesiredWithinRange";
    check(of(5, 9, &[]), 9, "ReadyForNewScale", within);
    check(of(5, 9, &[(7, 50)]), 7, "ScaleUpStabilized", within);
    check(of(5, 9, &[(3, 50)]), 5, "ScaleUpStabilized", within);
    // The window is over.
    check(of(5, 9, &[(3, 100)]), 9, "ReadyForNewScale", within);
    check(of(5, 2, &[(4, 150)]), 4, "ScaleDownStabilized", within);
    check(of(5, 2, &[(9, 150)]), 5, "ScaleDownStabilized", within);
    check(of(5, 2, &[(9, 200)]), 2, "ReadyForNewScale", within);
}

#[test]
fn without_a_window_the_flag_stabilizes_a_shrinkage() {
    let rules = json!({"policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    let spec = spec(json!({"maxReplicas": 20, "behavior": {"scaleUp": rules, "scaleDown": rules}}));
    let mut history = History {
        recommendations: vec![Recommendation::new(4, ago(299))],
        ..History::default()
    };
    check(
        limited(&spec, 5, 2, &mut history),
        4,
        "ScaleDownStabilized",
        "False DesiredWithinRange",
    );
}

fn rules(select: &str, policies: &[(&str, i32, i32)]) -> Rules {
    let policy = |(kind, value, period): &(&str, i32, i32)| json!({"type": kind, "value": value, "periodSeconds": period});
    let policies: Vec<Value> = policies.iter().map(policy).collect();
    flyball_sdk::serde_json::from_value(json!({"selectPolicy": select, "policies": policies}))
        .unwrap()
}

#[test]
fn the_selected_policy_limits_the_rate() {
    let both = [("Pods", 4, 60), ("Percent", 100, 60)];
    let most = |select, current| most_after(&rules(select, &both), current, |_| current);
    assert_eq!([most("Max", 2), most("Max", 10)], [6, 20]);
    assert_eq!([most("Min", 2), most("Min", 10)], [4, 14]);
    assert_eq!(most("Disabled", 7), 7);
    let least = |select, current| least_after(&rules(select, &both), current, |_| current);
    assert_eq!([least("Max", 2), least("Max", 10)], [-2, 0]);
    assert_eq!([least("Min", 2), least("Min", 10)], [0, 6]);
    assert_eq!(least("Disabled", 7), 7);
    // Upwards rounded up, downwards rounded down, so that a few replicas can change.
    assert_eq!(
        most_after(&rules("Max", &[("Percent", 10, 60)]), 1, |_| 1),
        2
    );
    assert_eq!(
        least_after(&rules("Max", &[("Percent", 10, 60)]), 5, |_| 5),
        4
    );
}

#[test]
fn changes_within_the_period_use_up_the_rate() {
    let spec = spec(json!({"maxReplicas": 100, "behavior": {
        "scaleUp": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]},
        "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}}}));
    let behavior = spec.behavior.clone().unwrap();
    let of = |current, desired, changes: &[(i32, i32, u64)]| {
        let mut history = History::default();
        for &(from, to, age) in changes {
            let rules = if to > from {
                &behavior.scale_up
            } else {
                &behavior.scale_down
            };
            history.changed(rules, from, to, ago(age));
        }
        limited(&spec, current, desired, &mut history)
    };
    let up = "True ScaleUpLimit";
    check(of(10, 20, &[]), 14, "ReadyForNewScale", up);
    check(of(10, 20, &[(7, 10, 30)]), 11, "ReadyForNewScale", up);
    check(of(14, 20, &[(10, 14, 59)]), 14, "ReadyForNewScale", up);
    check(of(14, 20, &[(10, 14, 60)]), 18, "ReadyForNewScale", up);
    // Removed replicas may be added again.
    check(of(8, 20, &[(10, 8, 30)]), 14, "ReadyForNewScale", up);
    let down = "True ScaleDownLimit";
    check(of(10, 1, &[]), 6, "ReadyForNewScale", down);
    check(of(6, 1, &[(10, 6, 30)]), 6, "ReadyForNewScale", down);
    check(of(12, 1, &[(10, 12, 30)]), 6, "ReadyForNewScale", down);
    // A greater change than the rules allow now never turns the direction.
    check(of(30, 40, &[(10, 30, 30)]), 30, "ReadyForNewScale", up);
    check(of(10, 5, &[(40, 10, 30)]), 10, "ReadyForNewScale", down);
}

#[test]
fn outdated_changes_are_replaced() {
    let rules = rules("Max", &[("Pods", 4, 60), ("Pods", 9, 120)]);
    let mut history = History::default();
    for age in [200, 190, 100, 0] {
        history.changed(&rules, 1, 2, ago(age));
    }
    // The last outdated one.
    assert_eq!(history.ups.len(), 3);
    history.changed(&rules, 5, 2, now());
    assert_eq!(
        (
            history.ups.len(),
            history.downs.len(),
            history.downs[0].replicas
        ),
        (3, 1, 3)
    );
}

#[test]
fn recommendations_survive_between_reconciles_and_end_with_the_window() {
    let world = World::by_cpu();
    world.uses("900m");
    assert_eq!(world.replicas(), 6);
    // Six are too many now, but were recommended lately.
    world.uses("100m");
    for _ in 0..20 {
        assert_eq!(world.replicas(), 6);
    }
    assert_eq!(world.reason("AbleToScale"), "True ScaleDownStabilized");
    assert_eq!(world.replicas(), 1);
}

#[test]
fn an_initial_recommendation_keeps_what_there_is() {
    let world = World::by_cpu();
    world.uses("100m");
    assert_eq!(world.replicas(), 3);
    assert_eq!(world.reason("AbleToScale"), "True ScaleDownStabilized");
}

#[test]
fn rates_apply_over_several_reconciles() {
    let world = World::new(json!({"maxReplicas": 30, "metrics": [cpu()], "behavior": {
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]},
        "scaleDown": {"selectPolicy": "Disabled", "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}}));
    world.uses("1000m");
    let replicas: Vec<i64> = (0..6).map(|_| world.replicas()).collect();
    assert_eq!(replicas, [5, 5, 5, 5, 6, 6]);
    assert_eq!(world.reason("ScalingLimited"), "False DesiredWithinRange");
    world.uses("10m");
    world.cluster.advance(Duration::from_secs(600));
    assert_eq!(world.replicas(), 6);
    assert_eq!(world.reason("ScalingLimited"), "True ScaleDownLimit");
}
