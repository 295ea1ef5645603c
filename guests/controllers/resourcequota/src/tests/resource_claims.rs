//! The usage by ResourceClaims, with and without extended resources.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::settings::EXTENDED_RESOURCES;

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
const GPUS: &str = "gpu.deviceclass.resource.k8s.io/devices";
const TPUS: &str = "tpu.deviceclass.resource.k8s.io/devices";
const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/gpu";
const EXPLICIT: &str = "requests.example.com/gpu";

fn claim(name: &str, requests: Value) -> Value {
    let claim = object("resource.k8s.io/v1/ResourceClaim", name);
    with(claim, "/spec/devices/requests", requests)
}

fn devices(class: &str, mode: &str, count: i64) -> Value {
    json!({"deviceClassName": class, "allocationMode": mode, "count": count})
}

fn exactly(class: &str, mode: &str, count: i64) -> Value {
    json!({"name": "r", "exactly": devices(class, mode, count)})
}

fn class(extended: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu", "uid": "c"},
           "spec": {"extendedResourceName": extended}})
}

/// A claim for this many GPUs, created for the pod `owner`.
fn created_for(owner: &str, name: &str, count: i64) -> Value {
    let claim = claim(name, json!([exactly("gpu", "ExactCount", count)]));
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": format!("u-{owner}"), "controller": true}]);
    let claim = with(claim, "/metadata/ownerReferences", owner);
    with(
        claim,
        "/metadata/annotations/resource.kubernetes.io~1extended-resource-claim",
        "true",
    )
}

/// A pod that requests GPUs by both names of the class, and names this claim.
fn asking(explicit: &str, implicit: &str, claim: Option<&str>) -> Value {
    let requests =
        json!({"example.com/gpu": explicit, "deviceclass.resource.kubernetes.io/gpu": implicit});
    let pod = pod_of("pod", json!({"requests": requests}));
    match claim {
        Some(claim) => with(
            pod,
            "/status/extendedResourceClaimStatus/resourceClaimName",
            claim,
        ),
        None => pod,
    }
}

#[test]
fn devices_are_counted_by_their_class() {
    for (requests, used) in [
        (json!([]), ["1", "0", "0"]),
        (json!([exactly("gpu", "ExactCount", 1)]), ["1", "1", "0"]),
        (
            json!([
                exactly("gpu", "ExactCount", 5),
                exactly("tpu", "ExactCount", 2),
                exactly("gpu", "ExactCount", 3)
            ]),
            ["1", "8", "2"],
        ),
        (json!([exactly("gpu", "All", 0)]), ["1", "32", "0"]),
        (json!([exactly("gpu", "Some", 7)]), ["1", "0", "0"]),
        (json!([{"name": "r"}]), ["1", "0", "0"]),
    ] {
        assert_eq!(
            used_of([claim("a", requests.clone())], [COUNT, GPUS, TPUS]),
            used,
            "{requests}"
        );
    }
}

#[test]
fn of_alternatives_the_worst_of_each_class_counts() {
    let first = |alternatives: Value| json!([{"name": "r", "firstAvailable": alternatives}]);
    for (alternatives, used) in [
        (json!([devices("gpu", "ExactCount", 2)]), ["2", "0"]),
        (
            json!([
                devices("gpu", "ExactCount", 2),
                devices("gpu", "ExactCount", 5),
                devices("gpu", "ExactCount", 1)
            ]),
            ["5", "0"],
        ),
        (
            json!([devices("gpu", "ExactCount", 2), devices("gpu", "All", 0)]),
            ["32", "0"],
        ),
        (
            json!([
                devices("gpu", "ExactCount", 2),
                devices("tpu", "ExactCount", 3)
            ]),
            ["2", "3"],
        ),
    ] {
        let claim = claim("a", first(alternatives.clone()));
        assert_eq!(used_of([claim], [GPUS, TPUS]), used, "{alternatives}");
    }
    let both = json!([{"firstAvailable": [devices("gpu", "ExactCount", 2)]}, exactly("gpu", "ExactCount", 1)]);
    assert_eq!(used_of([claim("a", both)], [GPUS]), ["3"]);
}

#[test]
fn devices_count_as_the_extended_resources_of_their_class() {
    let gpus = || claim("a", json!([exactly("gpu", "ExactCount", 2)]));
    for (objects, used) in [
        (
            vec![gpus(), class("example.com/gpu".into())],
            ["2", "2", "2"],
        ),
        // Each class has a resource that is named after it, even if the class was deleted.
        (vec![gpus(), class(Value::Null)], ["2", "2", "0"]),
        (vec![gpus()], ["2", "2", "0"]),
    ] {
        assert_eq!(used_of(objects, [GPUS, IMPLICIT, EXPLICIT]), used);
    }
}

#[test]
fn devices_that_their_pod_counts_are_not_counted_again() {
    let used = |pod: Value, claim: Value| {
        used_of(
            [pod, claim, class("example.com/gpu".into())],
            [GPUS, IMPLICIT, EXPLICIT],
        )
    };
    let named = |explicit: &str, implicit: &str| asking(explicit, implicit, Some("claim"));
    // The pod counts 2 of one name, and its claim the rest of the other.
    assert_eq!(
        used(named("2", "0"), created_for("pod", "claim", 2)),
        ["2", "2", "2"]
    );
    assert_eq!(
        used(named("0", "2"), created_for("pod", "claim", 2)),
        ["2", "2", "2"]
    );
    assert_eq!(
        used(named("1", "2"), created_for("pod", "claim", 3)),
        ["3", "3", "3"]
    );
    assert_eq!(
        used(named("5", "0"), created_for("pod", "claim", 2)),
        ["2", "2", "5"]
    );
    // A pod that has ended counts nothing.
    let ended = with(named("2", "2"), "/status/phase", "Succeeded");
    assert_eq!(used(ended, created_for("pod", "claim", 2)), ["2", "2", "2"]);
}

#[test]
fn a_claim_that_was_not_created_for_the_pods_resources_is_counted_in_addition() {
    let claim = || created_for("pod", "claim", 2);
    let not_annotated = with(claim(), "/metadata/annotations", json!({}));
    let not_true = with(
        claim(),
        "/metadata/annotations/resource.kubernetes.io~1extended-resource-claim",
        "yes",
    );
    let owner = "/metadata/ownerReferences/0";
    for other in [
        not_annotated,
        not_true,
        with(claim(), &format!("{owner}/controller"), false),
        with(claim(), &format!("{owner}/kind"), "ReplicaSet"),
        with(claim(), &format!("{owner}/apiVersion"), "v2"),
        with(claim(), &format!("{owner}/name"), "gone"),
        with(claim(), &format!("{owner}/uid"), "another"),
        with(claim(), "/metadata/name", "other"),
    ] {
        let objects = [
            asking("2", "0", Some("claim")),
            other.clone(),
            class("example.com/gpu".into()),
        ];
        assert_eq!(used_of(objects, [GPUS, EXPLICIT]), ["2", "4"], "{other}");
    }
}

#[test]
fn a_pod_without_a_claim_in_its_status_has_the_oldest_and_of_those_the_first() {
    let aged = |name: &str, second: u32| {
        let time = format!("2026-01-01T00:00:{second:02}Z");
        with(
            created_for("pod", name, 2),
            "/metadata/creationTimestamp",
            time,
        )
    };
    for (claims, used) in [
        (vec![aged("a", 5)], "2"),
        (vec![aged("a", 5), aged("b", 4)], "4"),
        (vec![aged("a", 5), aged("b", 5), aged("c", 5)], "6"),
    ] {
        let cluster: Vec<Value> = claims
            .into_iter()
            .chain([asking("2", "0", None), class("example.com/gpu".into())])
            .collect();
        assert_eq!(used_of(cluster, [EXPLICIT]), [used]);
    }
}

#[test]
fn without_the_feature_devices_count_only_by_their_class() {
    let measured = |objects: Vec<Value>| {
        let cluster: Cluster = cluster(objects);
        cluster.put(quota(json!({GPUS: "9", IMPLICIT: "9", EXPLICIT: "9"})));
        cluster.set_config(&format!("feature-gates.{EXTENDED_RESOURCES}"), "false");
        reconcile(&cluster).unwrap();
        let used = listed(&cluster, "used");
        [GPUS, IMPLICIT, EXPLICIT].map(|name| used[name].clone())
    };
    let claim = claim("a", json!([exactly("gpu", "ExactCount", 2)]));
    assert_eq!(
        measured(vec![
            claim,
            asking("1", "0", None),
            class("example.com/gpu".into())
        ]),
        ["2", "0", "1"]
    );
}
