//! The pods that are created.

use flyball_sdk::prelude::*;

use super::world::*;
use crate::observed::{GENERATION_LABEL, HASH_LABEL};
use crate::views::TEMPLATE_GENERATION;

/// The pod that is created for a set on one node.
fn created(set: Value) -> (World, Value) {
    let world = World::of(set, 1);
    world.sync();
    let pod = world.pods().remove(0);
    (world, pod)
}

fn bound(node: &str) -> Value {
    json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}])
}

#[test]
fn a_pod_has_the_metadata_of_the_template_and_the_labels_of_its_revision() {
    let metadata = json!({"labels": {"app": "ds"}, "annotations": {"a": "b"}, "finalizers": ["example.com/f"], "name": "unused"});
    let (world, pod) = created(set_with([("/spec/template/metadata", metadata)]));
    let own = &pod["metadata"];
    assert_eq!(
        own["labels"],
        json!({"app": "ds", HASH_LABEL: world.hash(), GENERATION_LABEL: "1"})
    );
    assert_eq!(own["generateName"], "ds-");
    assert_eq!(
        (&own["annotations"], &own["finalizers"]),
        (&json!({"a": "b"}), &json!(["example.com/f"]))
    );
    assert_eq!(
        own["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds-uid",
                "controller": true, "blockOwnerDeletion": true}])
    );
}

#[test]
fn without_a_usable_generation_the_label_is_left_out() {
    for annotations in [json!({}), json!({TEMPLATE_GENERATION: "first"})] {
        let (world, pod) = created(set_with([("/metadata/annotations", annotations)]));
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "ds", HASH_LABEL: world.hash()})
        );
    }
}

#[test]
fn the_scheduler_is_told_the_node() {
    let (_, pod) = created(set());
    assert_eq!(
        pod["spec"]["affinity"],
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": bound("n0")}}})
    );
    assert!(pod["spec"]["nodeName"].is_null());
}

#[test]
fn required_terms_are_replaced_and_the_rest_of_the_affinity_is_kept() {
    let term = json!({"matchExpressions": [{"key": "name", "operator": "Exists"}]});
    let preferred = json!([{"weight": 1, "preference": term}]);
    for (affinity, expected) in [
        (
            json!({"podAffinity": {"a": 1}}),
            json!({"podAffinity": {"a": 1},
                   "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": bound("n0")}}}),
        ),
        (
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred,
                                    "requiredDuringSchedulingIgnoredDuringExecution": null}}),
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred,
                                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": bound("n0")}}}),
        ),
        (
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [term, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]}}}),
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": bound("n0")}}}),
        ),
    ] {
        let (_, pod) = created(set_with([(&of_pods("affinity"), affinity)]));
        assert_eq!(pod["spec"]["affinity"], expected);
    }
}

#[test]
fn each_pod_names_its_own_node() {
    let world = World::of(set(), 3);
    world.sync();
    let mut nodes: Vec<String> = world.pods().iter().map(target).collect();
    nodes.sort();
    assert_eq!(nodes, ["n0", "n1", "n2"]);
}

#[test]
fn a_pod_tolerates_the_problems_of_nodes() {
    let (_, pod) = created(set_with([(&of_pods("hostNetwork"), json!(true))]));
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 7);
}

#[test]
fn the_prefix_of_a_longest_name_has_a_dash_too() {
    let name = "a".repeat(253);
    let world = World::of(set_with([("/metadata/name", json!(name))]), 1);
    world
        .cluster
        .reconcile::<crate::DaemonSetController>(&format!("default/{name}"))
        .unwrap();
    assert_eq!(
        world.pods()[0]["metadata"]["generateName"],
        format!("{name}-")
    );
}
