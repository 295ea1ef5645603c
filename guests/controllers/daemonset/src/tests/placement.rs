//! The nodes that should run a pod.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::view;

use super::world::*;
use crate::placement::{COMPARISON_OPERATORS, Fit, Requirements};
use crate::views::PodSpec;

const FITS: Fit = Fit::Fits;
const MAY_STAY: Fit = Fit::MayStay;
const UNFIT: Fit = Fit::Unfit;

/// How the node `n1` with the label `zone=a` and these taints suits a pod of this spec.
fn judge(spec: Value, taints: Value) -> Fit {
    judge_with(spec, taints, false)
}

fn judge_with(spec: Value, taints: Value, compares: bool) -> Fit {
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let node = view(
        json!({"metadata": {"name": "n1", "labels": {"zone": "a"}}, "spec": {"taints": taints}}),
    );
    Requirements::of(&spec, compares).judge(&node)
}

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "value": "x", "effect": effect})
}

fn affinity(zone: &str) -> Value {
    let zone = json!({"key": "zone", "operator": "In", "values": [zone]});
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}})
}

#[test]
fn a_node_suits_by_name_selector_and_affinity() {
    for (spec, expected) in [
        (json!({}), FITS),
        (json!({"nodeName": "n1"}), FITS),
        (json!({"nodeName": "n2"}), UNFIT),
        (json!({"nodeSelector": {"zone": "a"}}), FITS),
        (json!({"nodeSelector": {"zone": "b"}}), UNFIT),
        (json!({"nodeSelector": {"zone": "a", "disk": "ssd"}}), UNFIT),
        (json!({"affinity": affinity("a")}), FITS),
        (json!({"affinity": affinity("b")}), UNFIT),
        (
            json!({"nodeName": "n1", "nodeSelector": {"zone": "a"}, "affinity": affinity("a")}),
            FITS,
        ),
        (
            json!({"nodeName": "n1", "nodeSelector": {"zone": "b"}, "affinity": affinity("a")}),
            UNFIT,
        ),
        (
            json!({"nodeName": null, "nodeSelector": null, "affinity": null, "tolerations": null}),
            FITS,
        ),
    ] {
        assert_eq!(judge(spec.clone(), json!([])), expected, "{spec}");
    }
}

#[test]
fn resources_and_ports_are_left_to_the_scheduler() {
    let container =
        json!({"ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1000"}}});
    assert_eq!(judge(json!({"containers": [container]}), json!([])), FITS);
}

#[test]
fn pods_stay_on_a_node_with_a_noschedule_taint_and_leave_one_with_a_noexecute_taint() {
    for (taints, expected) in [
        (json!([taint("gpu", "NoSchedule")]), MAY_STAY),
        (json!([taint("gpu", "NoExecute")]), UNFIT),
        (
            json!([taint("gpu", "NoSchedule"), taint("gpu", "NoExecute")]),
            UNFIT,
        ),
        (
            json!([taint("gpu", "NoExecute"), taint("gpu", "NoSchedule")]),
            UNFIT,
        ),
        (json!([taint("gpu", "PreferNoSchedule")]), FITS),
    ] {
        assert_eq!(judge(json!({}), taints.clone()), expected, "{taints}");
        let tolerant = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
        assert_eq!(judge(tolerant, taints), FITS);
    }
    let halfway =
        json!({"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]});
    let both = json!([taint("gpu", "NoSchedule"), taint("gpu", "NoExecute")]);
    assert_eq!(judge(halfway, both), MAY_STAY);
}

#[test]
fn nodes_with_problems_suit() {
    for (key, effect) in [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ] {
        assert_eq!(judge(json!({}), json!([taint(key, effect)])), FITS, "{key}");
    }
    // The effect matters: these taints are not tolerated.
    let not_ready = json!([taint("node.kubernetes.io/not-ready", "NoSchedule")]);
    assert_eq!(judge(json!({}), not_ready), MAY_STAY);
}

#[test]
fn a_node_without_network_suits_only_pods_in_the_hosts_network() {
    let taints = json!([taint(
        "node.kubernetes.io/network-unavailable",
        "NoSchedule"
    )]);
    assert_eq!(judge(json!({}), taints.clone()), MAY_STAY);
    assert_eq!(judge(json!({"hostNetwork": true}), taints), FITS);
}

#[test]
fn tolerations_compare_numbers_behind_the_feature_gate() {
    let spec = json!({"tolerations": [{"key": "load", "operator": "Lt", "value": "5"}]});
    let taints = json!([{"key": "load", "value": "3", "effect": "NoSchedule"}]);
    assert_eq!(judge_with(spec.clone(), taints.clone(), false), MAY_STAY);
    assert_eq!(judge_with(spec.clone(), taints.clone(), true), FITS);

    let world = World::of(
        set_with([(&of_pods("tolerations"), spec["tolerations"].clone())]),
        1,
    );
    world
        .cluster
        .edit(NODE, "", "n0", |node| node["spec"]["taints"] = taints);
    assert_eq!(world.sync(), (0, 0));
    world
        .cluster
        .set_config(&format!("feature-gates.{COMPARISON_OPERATORS}"), "true");
    assert_eq!(world.sync(), (1, 0));
}
