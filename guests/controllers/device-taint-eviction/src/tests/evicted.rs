//! Pods that are evicted, and pods that are not.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;
use crate::evict::{DELETED, DURATION};

/// A cluster with a pod that uses the tainted device `a` with these tolerations.
fn tainted(keys: &[&str], tolerations: Value) -> Cluster {
    cluster([
        slice("s", 1, keys),
        claim("c", "a", &["x"], tolerations),
        pod("x", &["c"]),
    ])
}

fn pass(cluster: &Cluster, seconds: u64) -> Outcome {
    cluster.advance(std::time::Duration::from_secs(seconds));
    reconcile(cluster, "x").unwrap()
}

#[test]
fn a_pod_that_does_not_tolerate_a_taint_is_marked_and_deleted() {
    let cluster = tainted(&["t"], json!([]));
    cluster.advance(std::time::Duration::from_secs(7));
    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    let writes = cluster.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, eviction("x"));
    let condition = &writes[0].body["status"]["conditions"][0];
    assert_eq!(
        *condition,
        json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager",
               "message": "Device Taint manager: deleting due to NoExecute taint",
               "lastTransitionTime": "2026-01-01T00:00:07Z"})
    );
    assert_eq!(writes[0].body["metadata"], json!({"uid": "uid-x"}));
    assert_eq!(
        writes[1].options,
        json!({"preconditions": {"uid": "uid-x"}})
    );
    let events = cluster.recorded_events();
    assert_eq!(
        events.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [MARKING]
    );
    let metrics = cluster.metrics();
    let value = |name: &str| {
        metrics
            .iter()
            .find(|(_, metric, ..)| metric == name)
            .unwrap()
            .3
    };
    assert_eq!((value(DELETED), value(DURATION)), (1.0, 7.0));
}

#[test]
fn the_tolerations_of_the_taint_decide_when() {
    let hour = 3600;
    for (keys, tolerations, expected) in [
        (vec!["t"], json!([tolerates("t", Some(30))]), Some(30)),
        (
            vec!["t"],
            json!([tolerates("t", Some(hour)), tolerates("t", Some(5))]),
            Some(5),
        ),
        (
            vec!["t"],
            json!([tolerates("t", Some(5)), tolerates("t", None)]),
            None,
        ),
        (vec!["t"], json!([tolerates("t", Some(-5))]), Some(0)),
        (vec!["t"], json!([tolerates("other", None)]), Some(0)),
        // A toleration of all effects does not count.
        (
            vec!["t"],
            json!([{"key": "t", "operator": "Exists"}]),
            Some(0),
        ),
        (
            vec!["t", "u"],
            json!([tolerates("t", Some(hour)), tolerates("u", Some(9))]),
            Some(9),
        ),
        (
            vec!["t", "u"],
            json!([tolerates("t", None), tolerates("u", Some(9))]),
            Some(9),
        ),
        (vec!["t", "u"], json!([tolerates("t", Some(hour))]), Some(0)),
        (vec![], json!([]), None),
    ] {
        let cluster = tainted(&keys, tolerations.clone());
        let outcome = reconcile(&cluster, "x").unwrap();
        let is_evicted = !cluster.written().is_empty();
        let expected = match expected {
            Some(0) => (true, Outcome::Done),
            Some(seconds) => (false, after(seconds)),
            None => (false, Outcome::Done),
        };
        assert_eq!((is_evicted, outcome), expected, "{keys:?} {tolerations}");
    }
}

#[test]
fn a_pod_is_evicted_when_the_time_since_the_taint_has_passed() {
    let cluster = tainted(&["t"], json!([tolerates("t", Some(30))]));
    cluster.advance(std::time::Duration::from_secs(10));
    assert_eq!(reconcile(&cluster, "x").unwrap(), after(20));
    assert_eq!(pass(&cluster, 19), after(1));
    assert_idle(&cluster);
    assert_eq!(pass(&cluster, 1), Outcome::Done);
    assert_eq!(cluster.written(), eviction("x"));
}

#[test]
fn taints_with_other_effects_evict_nobody() {
    for effect in ["NoSchedule", "None"] {
        let slice = with(
            slice("s", 1, &[]),
            "/spec/devices/0/taints",
            json!([taint("t", effect)]),
        );
        let cluster = cluster([slice, claim("c", "a", &["x"], json!([])), pod("x", &["c"])]);
        assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
        assert_idle(&cluster);
    }
}

#[test]
fn a_removed_taint_cancels_once() {
    let cluster = tainted(&["t"], json!([tolerates("t", Some(30))]));
    assert_eq!(reconcile(&cluster, "x").unwrap(), after(30));
    cluster.put(slice("s", 2, &[]));
    for events in [vec![CANCELLING], vec![]] {
        assert_eq!(pass(&cluster, 40), Outcome::Done);
        assert_eq!(cluster.events(), events);
    }
    assert!(cluster.written().is_empty());
}

#[test]
fn only_the_highest_generation_of_a_pool_counts() {
    let objects = || [claim("c", "a", &["x"], json!([])), pod("x", &["c"])];
    for (slices, is_evicted) in [
        (vec![slice("old", 1, &["t"]), slice("new", 2, &[])], false),
        (vec![slice("old", 1, &[]), slice("new", 2, &["t"])], true),
        (vec![slice("one", 2, &["t"]), slice("two", 2, &[])], true),
    ] {
        let cluster = cluster(slices.into_iter().chain(objects()));
        assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
        assert_eq!(!cluster.written().is_empty(), is_evicted);
    }
}

#[test]
fn a_device_of_another_driver_or_pool_does_not_count() {
    for pointer in ["/spec/driver", "/spec/pool/name"] {
        let other = with(slice("s", 1, &["t"]), pointer, "other");
        let cluster = cluster([other, claim("c", "a", &["x"], json!([])), pod("x", &["c"])]);
        assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
        assert_idle(&cluster);
    }
}

#[test]
fn a_pod_is_left_alone_if_it_does_not_use_the_claim() {
    let reserved = |pods: &[&str]| claim("c", "a", pods, json!([]));
    let template = json!([{"name": "c", "resourceClaimTemplateName": "t"}]);
    let created = with(pod("x", &[]), "/spec/resourceClaims", template);
    let named = json!([{"name": "c", "resourceClaimName": "c"}]);
    let created = |names: Value| with(created.clone(), "/status/resourceClaimStatuses", names);
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "uid-x", "controller": true}]);
    let own = with(reserved(&["x"]), "/metadata/ownerReferences", owner);
    for (claim, pod, is_evicted) in [
        (reserved(&["x"]), pod("x", &["c"]), true),
        (reserved(&["other"]), pod("x", &["c"]), false),
        (
            reserved(&["x"]),
            with(pod("x", &["c"]), "/spec/nodeName", ""),
            false,
        ),
        (reserved(&["x"]), pod("x", &["missing"]), false),
        (own.clone(), created(named.clone()), true),
        (reserved(&["x"]), created(named), false),
        (own.clone(), created(json!([])), false),
        (own, created(json!([{"name": "c"}])), false),
    ] {
        let cluster = cluster([slice("s", 1, &["t"]), claim.clone(), pod.clone()]);
        assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
        assert_eq!(!cluster.written().is_empty(), is_evicted, "{claim} {pod}");
    }
}

#[test]
fn a_group_holds_claims_for_its_pods_behind_the_feature_gate() {
    let group = json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}]);
    let claim = with(
        claim("c", "a", &[], json!([])),
        "/status/reservedFor",
        group,
    );
    let pod = with(
        pod("x", &["c"]),
        "/spec/schedulingGroup",
        json!({"podGroupName": "g"}),
    );
    for is_on in [false, true] {
        let cluster = cluster([slice("s", 1, &["t"]), claim.clone(), pod.clone()]);
        cluster.set_config(
            "feature-gates.DRAWorkloadResourceClaims",
            &is_on.to_string(),
        );
        assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
        assert_eq!(!cluster.written().is_empty(), is_on);
    }
}

#[test]
fn the_claim_of_a_pods_extended_resources_evicts_since_kubernetes_1_37() {
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "uid-x", "controller": true}]);
    let own = with(
        claim("c", "a", &["x"], json!([])),
        "/metadata/ownerReferences",
        owner,
    );
    let extended = json!({"resourceClaimName": "c", "requestMappings": []});
    let pod = with(
        pod("x", &[]),
        "/status/extendedResourceClaimStatus",
        extended,
    );
    for (release, claim, evicts) in [
        ("1.37", own.clone(), true),
        ("1.36", own, false),
        // It belongs to another pod.
        ("1.37", claim("c", "a", &["x"], json!([])), false),
    ] {
        let cluster = cluster([slice("s", 1, &["t"]), claim, pod.clone()]);
        cluster.set_config("emulated-version", release);
        reconcile_in(&cluster, crate::CLAIMS, "team/c");
        assert_eq!(enqueued(&cluster, ""), ["team/x"]);
        assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
        assert_eq!(!cluster.written().is_empty(), evicts, "{release}");
    }
}

#[test]
fn the_first_of_several_claims_evicts() {
    let cluster = cluster([
        slice("s", 1, &["t"]),
        claim("c", "a", &["x"], json!([tolerates("t", Some(60))])),
        claim("d", "a", &["x"], json!([tolerates("t", Some(20))])),
        pod("x", &["c", "d"]),
    ]);
    assert_eq!(reconcile(&cluster, "x").unwrap(), after(20));
}

#[test]
fn a_pod_that_is_being_deleted_gets_no_write_and_no_event() {
    let cluster = tainted(&["t"], json!([]));
    cluster.edit(POD, "team", "x", |pod| {
        pod["metadata"]["deletionTimestamp"] = START.into();
    });
    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    assert_idle(&cluster);
}

#[test]
fn a_pod_that_was_replaced_is_not_touched() {
    let cluster = tainted(&["t"], json!([]));
    cluster.put_live(with(pod("x", &["c"]), "/metadata/uid", "another"));
    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    assert_idle(&cluster);
    assert!(cluster.metrics().is_empty());
}

#[test]
fn an_evicted_pod_that_still_ends_is_not_deleted_again() {
    let cluster = tainted(&["t"], json!([]));
    cluster.edit(POD, "team", "x", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    });
    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), eviction("x"));
    cluster.events();
    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    assert_idle(&cluster);
}

/// The verbs of the writes since the last call, including failed ones.
fn verbs(cluster: &Cluster) -> Vec<String> {
    let writes = cluster.writes().into_iter();
    writes.map(|write| write.verb).collect()
}

#[test]
fn a_failed_deletion_is_retried_without_marking_again() {
    let cluster = tainted(&["t"], json!([]));
    cluster.fail("delete", POD, refusal(500, "InternalError"));
    reconcile(&cluster, "x").unwrap_err();
    assert_eq!(verbs(&cluster), ["patch", "delete"]);
    assert_eq!(reconcile(&cluster, "x").unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), eviction("x")[1..]);
}

#[test]
fn a_pod_that_cannot_be_marked_is_not_deleted() {
    let cluster = tainted(&["t"], json!([]));
    cluster.fail("patch", STATUS, refusal(500, "InternalError"));
    reconcile(&cluster, "x").unwrap_err();
    assert_eq!(verbs(&cluster), ["patch"]);
}
