//! Budgets in numbers and percents.

use flyball_sdk::prelude::*;

use super::world::{World, controlled, deleted, pod, scaled, unready};

const SET: &str = "apps/v1/ReplicaSet";

fn of_set(name: &str) -> Value {
    controlled(pod(name), SET, "web")
}

#[test]
fn a_number_of_pods_counts_pods_whatever_controls_them() {
    let world = World::with(json!({"minAvailable": 3}), []);
    world.sync();
    assert_eq!(world.numbers(), [0, 0, 3, 0]);
    for count in 1..=4 {
        world.cluster.put(pod(&format!("pod-{count}")));
        world.sync();
        assert_eq!(world.numbers(), [(count - 3).max(0), count, 3, count]);
    }
    world.set_ready("pod-1", "False");
    world.sync();
    assert_eq!(world.numbers(), [0, 3, 3, 4]);
    assert!(world.cluster.live_reads().is_empty());
}

#[test]
fn an_empty_selector_selects_all_pods_of_the_namespace_and_an_absent_one_none() {
    let mut elsewhere = pod("elsewhere");
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut unlabelled = pod("unlabelled");
    unlabelled["metadata"]["labels"] = Value::Null;
    for (selector, count) in [(json!({}), 2), (Value::Null, 0)] {
        let world = World::with(
            json!({"minAvailable": 1, "selector": selector}),
            [pod("web"), elsewhere.clone(), unlabelled.clone()],
        );
        world.sync();
        assert_eq!(world.numbers(), [(count - 1).max(0), count, 1, count]);
    }
}

#[test]
fn an_expression_selects_pods() {
    let selector =
        json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]});
    let mut other = pod("other");
    other["metadata"]["labels"]["app"] = "db".into();
    let world = World::with(
        json!({"minAvailable": 0, "selector": selector}),
        [pod("web"), other],
    );
    world.sync();
    assert_eq!(world.numbers(), [1, 1, 0, 1]);
}

#[test]
fn the_maximum_of_unavailable_pods_refers_to_the_replicas_of_their_controllers() {
    let world = World::with(
        json!({"maxUnavailable": 2}),
        [scaled(SET, "web", 7), of_set("pod")],
    );
    world.sync();
    assert_eq!(world.numbers(), [0, 1, 5, 7]);
    world.set_replicas(SET, "web", 5);
    world.sync();
    assert_eq!(world.numbers(), [0, 1, 3, 5]);
    world.set_replicas(SET, "web", 1);
    world.sync();
    assert_eq!(world.numbers(), [1, 1, 0, 1]);
}

#[test]
fn percentages_are_rounded_up() {
    for (spec, replicas, desired) in [
        (json!({"maxUnavailable": "30%"}), 7, 4),
        (json!({"maxUnavailable": "30%"}), 3, 2),
        (json!({"maxUnavailable": "100%"}), 3, 0),
        (json!({"maxUnavailable": "0%"}), 3, 3),
        (json!({"minAvailable": "20%"}), 10, 2),
        (json!({"minAvailable": "34%"}), 3, 2),
        (json!({"minAvailable": "28%"}), 11, 4),
        (json!({"minAvailable": "28%"}), 22, 7),
        (json!({"minAvailable": "100%"}), 3, 3),
    ] {
        let world = World::with(spec.clone(), [scaled(SET, "web", replicas), of_set("pod")]);
        world.sync();
        assert_eq!(
            world.numbers(),
            [i64::from(desired == 0), 1, desired, replicas.into()],
            "{spec}"
        );
    }
}

#[test]
fn a_percentage_of_a_controller_without_pods_is_unknown_and_allows_nothing() {
    let world = World::with(json!({"minAvailable": "34%"}), [scaled(SET, "web", 3)]);
    world.sync();
    assert_eq!(world.numbers(), [0, 0, 0, 0]);
    assert_eq!(world.condition(), "False InsufficientPods: ");
    assert_eq!(world.events(), ["Normal NoPods No matching pods found"]);
}

#[test]
fn a_controller_scaled_to_zero_allows_no_disruption_of_its_last_pods() {
    let world = World::with(
        json!({"maxUnavailable": 1}),
        [scaled(SET, "web", 0), of_set("pod")],
    );
    world.sync();
    assert_eq!(world.numbers(), [0, 1, 0, 0]);
}

#[test]
fn a_budget_without_a_number_allows_nothing() {
    let world = World::with(json!({}), [pod("pod")]);
    world.sync();
    assert_eq!(world.numbers(), [0, 1, 0, 0]);
}

#[test]
fn pods_that_are_unready_or_being_deleted_are_expected_but_not_healthy() {
    let mut conditionless = pod("conditionless");
    conditionless["status"] = Value::Null;
    let mut ended = unready(pod("ended"));
    ended["status"]["phase"] = "Succeeded".into();
    let world = World::with(
        json!({"minAvailable": 1}),
        [
            pod("a"),
            pod("b"),
            deleted(pod("deleted")),
            unready(pod("unready")),
            conditionless,
            ended,
        ],
    );
    world.sync();
    assert_eq!(world.numbers(), [1, 2, 1, 6]);
}

#[test]
fn pods_without_a_controller_are_left_out_of_a_total_with_a_warning() {
    let text = "Warning UnmanagedPods Pods selected by this PodDisruptionBudget (selector: \
                &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) \
                were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may \
                result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB \
                to an integer value.";
    for spec in [json!({"maxUnavailable": 1}), json!({"minAvailable": "28%"})] {
        let world = World::with(spec, [pod("naked")]);
        world.sync();
        assert_eq!(world.numbers(), [0, 1, 0, 0]);
        assert_eq!(world.events(), [text]);
        assert_eq!(world.condition(), "False InsufficientPods: ");
    }
    let world = World::with(json!({"minAvailable": 1}), [pod("naked")]);
    world.sync();
    assert!(world.events().is_empty());
}

#[test]
fn a_stray_pod_counts_as_healthy_although_it_is_not_expected() {
    let world = World::with(json!({"minAvailable": "34%"}), [scaled(SET, "web", 3)]);
    for (name, numbers) in [
        ("a", [0, 1, 2, 3]),
        ("b", [0, 2, 2, 3]),
        ("c", [1, 3, 2, 3]),
    ] {
        world.cluster.put(of_set(name));
        world.sync();
        assert_eq!(world.numbers(), numbers);
    }
    world.cluster.put(pod("stray"));
    world.sync();
    assert_eq!(world.numbers(), [2, 4, 2, 3]);
}
