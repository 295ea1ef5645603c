//! The changes that enqueue quotas, and in which queue.

use flyball_sdk::ApiError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::*;
use crate::views::Quota;
use crate::{PRIORITY, ResourceQuotaController};

/// The queues and keys that a change enqueues.
fn route(cluster: &Cluster, kind: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    // Reads follow the description, as in the host.
    let _ = reconcile(cluster);
    let host = flyball_sdk::Host::new(cluster);
    let routed = ResourceQuotaController::route(&host, &[delta(kind, old, new)]).unwrap();
    routed
        .iter()
        .map(|routed| format!("{}:{}", routed.queue, routed.key))
        .collect()
}

/// The queue of a quota that was added; empty for the primary one.
fn queue(quota: Value) -> String {
    let routed = route(&cluster([]), Quota::KIND, None, Some(&quota));
    let [routed] = routed.as_slice() else {
        panic!("{routed:?}")
    };
    routed
        .strip_suffix(":team/quota")
        .expect("the quota")
        .to_owned()
}

/// Whether a change wakes a quota with these limits.
fn wakes(hard: Value, kind: &str, old: &Value, new: Option<&Value>) -> bool {
    let used: Value = hard
        .as_object()
        .unwrap()
        .keys()
        .map(|name| (name.clone(), json!("0")))
        .collect();
    let cluster = cluster([settled(hard, used)]);
    !route(&cluster, kind, Some(old), new).is_empty()
}

#[test]
fn a_quota_without_a_complete_status_comes_before_others() {
    let hard = || json!({"cpu": "4"});
    let other = |hard: Value, status: Value| with(quota(hard), "/status", status);
    for (quota, expected) in [
        (quota(hard()), PRIORITY),
        (unmeasured(hard()), PRIORITY),
        (
            unmeasured(json!({"requests.example.com/foo": "4"})),
            PRIORITY,
        ),
        (unmeasured(json!({"count/secrets": "4"})), PRIORITY),
        (
            unmeasured(json!({"count/widgets.example.com": "4"})),
            PRIORITY,
        ),
        (
            other(hard(), json!({"hard": {"cpu": "6"}, "used": {"cpu": "0"}})),
            PRIORITY,
        ),
        // Nothing counts these.
        (unmeasured(json!({"count/foobars.example.com": "4"})), ""),
        (unmeasured(json!({"bananas": "4"})), ""),
        (settled(hard(), json!({"cpu": "0"})), ""),
        (
            other(
                hard(),
                json!({"hard": {"cpu": "4000m"}, "used": {"cpu": "0"}}),
            ),
            "",
        ),
        (self::quota(json!({})), ""),
    ] {
        assert_eq!(queue(quota.clone()), expected, "{quota}");
    }
}

#[test]
fn a_quota_is_enqueued_again_only_if_its_limits_change() {
    let old = settled(json!({"cpu": "4"}), json!({"cpu": "0"}));
    let changed = |pointer: &str, value: &str| {
        let new = with(old.clone(), pointer, value);
        route(&cluster([]), Quota::KIND, Some(&old), Some(&new))
    };
    assert_eq!(
        changed("/spec/hard/cpu", "5"),
        [format!("{PRIORITY}:team/quota")]
    );
    assert!(changed("/spec/hard/cpu", "4000m").is_empty());
    assert!(changed("/status/used/cpu", "1").is_empty());
    assert!(changed("/metadata/labels/a", "b").is_empty());
}

#[test]
fn a_deleted_quota_wakes_those_that_count_quotas() {
    let deleted = with(quota(json!({})), "/metadata/name", "other");
    for (hard, expected) in [
        (json!({"resourcequotas": "1"}), true),
        (json!({"count/resourcequotas": "1"}), true),
        (json!({"pods": "1"}), false),
    ] {
        assert_eq!(wakes(hard, Quota::KIND, &deleted, None), expected);
    }
}

#[test]
fn a_deletion_wakes_the_quotas_of_its_namespace_that_count_the_kind() {
    for (kind, hard, expected) in [
        ("v1/Pod", json!({"requests.cpu": "1"}), true),
        ("v1/Pod", json!({"requests.example.com/gpu": "1"}), true),
        (
            "v1/Pod",
            json!({"services": "1", "count/secrets": "1"}),
            false,
        ),
        ("v1/Service", json!({"services.nodeports": "1"}), true),
        (
            "v1/PersistentVolumeClaim",
            json!({"gold.storageclass.storage.k8s.io/requests.storage": "1"}),
            true,
        ),
        (
            "resource.k8s.io/v1/ResourceClaim",
            json!({"gpu.deviceclass.resource.k8s.io/devices": "1"}),
            true,
        ),
        ("v1/Secret", json!({"secrets": "1"}), true),
        ("v1/Secret", json!({"configmaps": "1"}), false),
        (
            "apps/v1/Deployment",
            json!({"count/deployments.apps": "1"}),
            true,
        ),
        (
            "apps/v1/Deployment",
            json!({"count/replicasets.apps": "1"}),
            false,
        ),
        (
            "example.com/v1/Widget",
            json!({"count/widgets.example.com": "1"}),
            true,
        ),
    ] {
        assert_eq!(
            wakes(hard.clone(), kind, &object(kind, "a"), None),
            expected,
            "{kind} {hard}"
        );
    }
    let elsewhere = with(pod("a"), "/metadata/namespace", "other");
    assert!(!wakes(json!({"pods": "1"}), "v1/Pod", &elsewhere, None));
    let in_cluster = json!({"metadata": {"name": "a", "uid": "u"}});
    assert!(!wakes(
        json!({"count/nodes": "1"}),
        "v1/Node",
        &in_cluster,
        None
    ));
}

#[test]
fn the_limits_of_the_status_decide_which_quotas_wake() {
    let quota = with(
        quota(json!({"pods": "1"})),
        "/status/hard",
        json!({"services": "1"}),
    );
    let cluster = cluster([quota]);
    let host = cluster.host();
    let routed = |kind: &str| {
        let deltas = [delta(kind, Some(&object(kind, "a")), None)];
        ResourceQuotaController::route(&host, &deltas)
            .unwrap()
            .len()
    };
    assert_eq!((routed("v1/Pod"), routed("v1/Service")), (0, 1));
}

#[test]
fn a_deletion_in_a_group_that_is_not_known_wakes_all_that_count_in_the_group() {
    let counted = |hard: Value| {
        let cluster = cluster([settled(hard, json!({}))]);
        cluster.fail("discover", "", ApiError::unreachable("no route"));
        let host = cluster.host();
        let gone = object("example.net/v1/Tool", "a");
        let deltas = [delta("example.net/v1/Tool", Some(&gone), None)];
        ResourceQuotaController::route(&host, &deltas)
            .unwrap()
            .len()
    };
    assert_eq!(counted(json!({"count/tools.example.net": "1"})), 1);
    assert_eq!(
        counted(json!({"count/widgets.example.com": "1", "pods": "1"})),
        0
    );
}

#[test]
fn a_claim_wakes_the_quotas_on_its_extended_resources() {
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu", "uid": "c"},
                       "spec": {"extendedResourceName": "example.com/gpu"}});
    let hard = json!({"requests.example.com/gpu": "1"});
    let claim = object("resource.k8s.io/v1/ResourceClaim", "a");
    let cluster = cluster([
        settled(hard.clone(), json!({"requests.example.com/gpu": "0"})),
        class,
    ]);
    assert_eq!(
        route(
            &cluster,
            "resource.k8s.io/v1/ResourceClaim",
            Some(&claim),
            None
        ),
        [":team/quota"]
    );
    assert!(!wakes(
        hard,
        "resource.k8s.io/v1/ResourceClaim",
        &claim,
        None
    ));
}

#[test]
fn a_pod_wakes_quotas_when_it_ends_is_overdue_changes_its_scope_or_is_resized() {
    let running = pod("a");
    let deleting = |pod: &Value, time: &str, grace: i64| {
        let pod = with(pod.clone(), "/metadata/deletionTimestamp", time);
        with(pod, "/metadata/deletionGracePeriodSeconds", grace)
    };
    let (past, future) = ("2025-12-31T00:00:00Z", "2026-01-02T00:00:00Z");
    let resized = |list: &str, cpu: &str| {
        let status = json!([{"name": "app", "resources": {"requests": {"cpu": cpu}}}]);
        with(running.clone(), &format!("/status/{list}"), status)
    };
    let unset = |list: &str| {
        with(
            running.clone(),
            &format!("/status/{list}"),
            json!([{"name": "app"}]),
        )
    };
    let ended = |phase: &str| with(running.clone(), "/status/phase", phase);
    let deadline = |seconds: i64| with(running.clone(), "/spec/activeDeadlineSeconds", seconds);
    for (old, new, expected) in [
        (running.clone(), ended("Succeeded"), true),
        (running.clone(), ended("Failed"), true),
        (ended("Succeeded"), ended("Failed"), false),
        (ended("Pending"), running.clone(), false),
        (running.clone(), deleting(&running, past, 0), true),
        (running.clone(), deleting(&running, future, 30), false),
        (
            deleting(&running, future, 30),
            deleting(&running, past, 0),
            true,
        ),
        (
            deleting(&running, past, 0),
            with(deleting(&running, past, 0), "/status/phase", "Failed"),
            false,
        ),
        (running.clone(), deadline(5), true),
        (deadline(5), running.clone(), true),
        (deadline(5), deadline(6), false),
        (
            resized("containerStatuses", "1"),
            resized("containerStatuses", "2"),
            true,
        ),
        (
            resized("containerStatuses", "1"),
            resized("containerStatuses", "1000m"),
            false,
        ),
        (
            resized("initContainerStatuses", "1"),
            resized("initContainerStatuses", "2"),
            true,
        ),
        (
            unset("containerStatuses"),
            resized("containerStatuses", "2"),
            true,
        ),
        (running.clone(), resized("containerStatuses", "2"), false),
        (resized("containerStatuses", "2"), running.clone(), false),
    ] {
        assert_eq!(
            wakes(json!({"pods": "1"}), "v1/Pod", &old, Some(&new)),
            expected,
            "{old} {new}"
        );
    }
}

#[test]
fn a_service_wakes_quotas_when_its_type_stops_or_starts_to_count() {
    let typed = |own: &str| with(object("v1/Service", "a"), "/spec/type", own);
    for (old, new, expected) in [
        ("NodePort", "ClusterIP", true),
        ("LoadBalancer", "NodePort", true),
        ("ClusterIP", "LoadBalancer", true),
        ("ClusterIP", "ExternalName", false),
        ("NodePort", "NodePort", false),
    ] {
        assert_eq!(
            wakes(
                json!({"services": "1"}),
                "v1/Service",
                &typed(old),
                Some(&typed(new))
            ),
            expected,
            "{old} {new}"
        );
    }
}

#[test]
fn a_volume_claim_wakes_quotas_when_its_size_or_its_classes_change() {
    let old = with(
        object("v1/PersistentVolumeClaim", "a"),
        "/metadata/resourceVersion",
        "1",
    );
    let wakes = |pointer: &str, value: &str| {
        let new = with(old.clone(), pointer, value);
        wakes(
            json!({"requests.storage": "1"}),
            "v1/PersistentVolumeClaim",
            &old,
            Some(&new),
        )
    };
    for pointer in [
        "/spec/resources/requests/storage",
        "/status/allocatedResources/storage",
    ] {
        assert!(wakes(pointer, "1Gi"), "{pointer}");
    }
    for pointer in [
        "/spec/storageClassName",
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
        "/metadata/annotations/volume.beta.kubernetes.io~1storage-class",
    ] {
        assert!(wakes(pointer, "gold"), "{pointer}");
    }
    assert!(!wakes("/metadata/resourceVersion", "2"));
    assert!(!wakes("/status/phase", "Bound"));
}

#[test]
fn other_changes_wake_nothing() {
    for kind in ["v1/ConfigMap", "resource.k8s.io/v1/ResourceClaim"] {
        let old = object(kind, "a");
        let hard = json!({"configmaps": "1", "count/resourceclaims.resource.k8s.io": "1"});
        assert!(!wakes(
            hard,
            kind,
            &old,
            Some(&with(old.clone(), "/data", "x"))
        ));
    }
    let cluster = cluster([settled(json!({"pods": "1"}), json!({"pods": "0"}))]);
    assert!(route(&cluster, "v1/Pod", None, Some(&pod("a"))).is_empty());
}
