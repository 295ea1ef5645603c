//! Targets without replicas.

use flyball_sdk::prelude::*;

use super::world::{World, cpu, external};

const GATE: &str = "feature-gates.HPAScaleToZero";

fn world(least: i32, metric: Value) -> World {
    let world = World::new(
        json!({"minReplicas": least, "maxReplicas": 10, "metrics": [metric],
        "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]},
                     "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}}),
    );
    world.cluster.set_config(GATE, "true");
    world
}

fn by_queue(least: i32) -> World {
    world(least, external(json!({"type": "Value", "value": "100"})))
}

#[test]
fn a_target_that_somebody_scaled_to_zero_is_left_alone() {
    for gate in ["false", "true"] {
        let world = by_queue(0);
        world.cluster.set_config(GATE, gate);
        world.scale(0);
        world.put_external(&["500"]);
        assert_eq!(world.replicas(), 0);
        assert_eq!(
            world.condition("ScalingActive"),
            "False ScalingDisabled: scaling is disabled since the replica count of the target is zero"
        );
        assert_eq!(world.reason("AbleToScale"), "True SucceededGetScale");
    }
}

#[test]
fn what_the_controller_scaled_to_zero_it_scales_up_again() {
    let world = by_queue(0);
    world.put_external(&["0"]);
    assert_eq!(world.replicas(), 0);
    assert_eq!(
        world.condition("ScaledToZero"),
        "True ScaledToZero: the HPA controller scaled the workload to zero"
    );
    assert_eq!(world.replicas(), 0);
    world.put_external(&["250"]);
    assert_eq!(world.replicas(), 3);
    assert_eq!(world.reason("ScaledToZero"), "False NotScaledToZero");
}

#[test]
fn a_higher_minimum_ends_zero() {
    let world = by_queue(0);
    world.put_external(&["0"]);
    assert_eq!(world.replicas(), 0);
    world.edit(|web| web["spec"]["minReplicas"] = 2.into());
    assert_eq!(world.replicas(), 2);
}

#[test]
fn without_the_gate_the_condition_is_removed() {
    let world = by_queue(0);
    world.put_external(&["0"]);
    assert_eq!(world.replicas(), 0);
    world.cluster.set_config(GATE, "false");
    assert_eq!(world.replicas(), 0);
    assert_eq!(world.condition("ScaledToZero"), "");
    assert_eq!(world.reason("ScalingActive"), "False ScalingDisabled");
}

#[test]
fn a_metric_of_pods_scales_to_no_less_than_it_can_scale_up_from() {
    let world = world(1, cpu());
    world.uses("0");
    assert_eq!(world.replicas(), 1);
    assert_eq!(world.reason("ScaledToZero"), "False NotScaledToZero");
    assert_eq!(world.reason("ScalingLimited"), "True TooFewReplicas");
}
