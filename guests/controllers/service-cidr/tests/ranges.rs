//! Native tests of the whole controller.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions, refusal, set_at};
use service_cidr_controller::ServiceCidrs;

const KIND: &str = "networking.k8s.io/v1/ServiceCIDR";
const PATCH: &str = "patch networking.k8s.io/v1/ServiceCIDR a";
const APPLY: &str = "patch networking.k8s.io/v1/ServiceCIDR/status a";
/// 15 s before the start of the cluster's clock.
const LONG_AGO: &str = "2025-12-31T23:59:45Z";
const NOW: &str = "2026-01-01T00:00:00Z";

fn range(name: &str, cidrs: &[&str]) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name},
           "spec": {"cidrs": cidrs}})
}

/// A ServiceCIDR that needs nothing.
fn ready(name: &str, cidrs: &[&str]) -> Value {
    let mut range = range(name, cidrs);
    range["metadata"]["finalizers"] = json!(["networking.k8s.io/service-cidr-finalizer"]);
    range["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "reason": "",
        "message": "Kubernetes Service CIDR is ready", "lastTransitionTime": LONG_AGO}]);
    range
}

fn deleting(cidrs: &[&str], since: &str) -> Value {
    let mut range = ready("a", cidrs);
    range["metadata"]["deletionTimestamp"] = since.into();
    range
}

fn address(name: &str) -> Value {
    let family = if name.contains(':') { "IPv6" } else { "IPv4" };
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": name, "labels": {
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": family}}})
}

fn reconcile(cluster: &Cluster) -> Outcome {
    cluster.reconcile::<ServiceCidrs>("a").unwrap()
}

/// Reconciles a deletion of long ago. Returns whether the object is deleted; otherwise the condition must say why not.
fn is_deleted(range: Value, others: impl IntoIterator<Item = Value>) -> bool {
    let cluster = Cluster::with(others);
    cluster.put(range);
    assert_eq!(reconcile(&cluster), Outcome::Done);
    let Some(left) = cluster.object(KIND, "", "a") else {
        assert_eq!(cluster.written(), [PATCH]);
        return true;
    };
    assert_eq!(cluster.written(), [APPLY]);
    let ready = &left["status"]["conditions"][0];
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("Terminating"))
    );
    reconcile(&cluster);
    assert!(cluster.written().is_empty());
    false
}

#[test]
fn a_new_service_cidr_gets_the_finalizer_and_the_condition_once() {
    let mut new = range("a", &["10.1.0.0/24"]);
    set_at(&mut new, "/metadata/finalizers", json!(["example.com/own"]));
    let cluster = Cluster::with([new]);
    reconcile(&cluster);
    let writes = cluster.writes();
    assert_eq!(
        writes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [PATCH, APPLY]
    );
    assert_eq!(
        writes[0].body,
        json!({"metadata": {"finalizers": ["networking.k8s.io/service-cidr-finalizer"]}})
    );
    let options = json!({"fieldManager": "service-cidr-controller", "force": true});
    assert_eq!(writes[1].options, options);
    let object = cluster.object(KIND, "", "a").unwrap();
    assert_eq!(
        object["metadata"]["finalizers"].as_array().unwrap().len(),
        2
    );
    assert_eq!(
        object["status"]["conditions"],
        json!([{"type": "Ready", "status": "True", "reason": "", "lastTransitionTime": NOW,
                "message": "Kubernetes Service CIDR is ready"}])
    );
    reconcile(&cluster);
    assert!(cluster.written().is_empty() && cluster.events().is_empty());
}

#[test]
fn only_what_is_missing_is_written() {
    let cluster = Cluster::with([ready("a", &["10.1.0.0/24"])]);
    reconcile(&cluster);
    assert!(cluster.written().is_empty());
    for (pointer, value, expected) in [
        ("/metadata/finalizers", json!([]), PATCH),
        ("/status/conditions", json!([]), APPLY),
        ("/status/conditions/0/status", json!("False"), APPLY),
        ("/status/conditions/0/reason", json!("Other"), APPLY),
        ("/status/conditions/0/message", json!("other"), APPLY),
    ] {
        let mut range = ready("a", &["10.1.0.0/24"]);
        set_at(&mut range, pointer, value);
        let cluster = Cluster::with([range]);
        reconcile(&cluster);
        assert_eq!(cluster.written(), [expected], "{pointer}");
    }
}

#[test]
fn a_condition_that_cant_be_set_is_an_event_and_is_retried() {
    let cluster = Cluster::with([range("a", &["10.1.0.0/24"])]);
    let status = format!("{KIND}/status");
    cluster.fail("patch", &status, refusal(500, "InternalError"));
    assert!(
        !cluster
            .reconcile::<ServiceCidrs>("a")
            .unwrap_err()
            .is_terminal()
    );
    assert_eq!(
        cluster.events(),
        ["Warning KubernetesServiceCIDRError The ServiceCIDR Status can not be set to Ready=True"]
    );
    cluster.written();
    reconcile(&cluster);
    assert_eq!(cluster.written(), [APPLY]);
}

#[test]
fn a_service_cidr_that_vanishes_meanwhile_gets_no_finalizer() {
    let cluster = Cluster::with([{
        let mut range = ready("a", &["10.1.0.0/24"]);
        range["metadata"]["finalizers"] = json!([]);
        range
    }]);
    cluster.fail("patch", KIND, refusal(404, "NotFound"));
    assert_eq!(reconcile(&cluster), Outcome::Done);
    assert_eq!(
        Cluster::new().reconcile::<ServiceCidrs>("a").unwrap(),
        Outcome::Done
    );
}

#[test]
fn a_service_cidr_without_addresses_is_deleted_after_a_grace_period() {
    assert!(is_deleted(deleting(&["10.1.0.0/24"], LONG_AGO), []));
    let cluster = Cluster::with([deleting(&["10.1.0.0/24"], NOW)]);
    assert_eq!(
        reconcile(&cluster),
        Outcome::RequeueAfter(Duration::from_secs(10))
    );
    cluster.advance(Duration::from_millis(9_900));
    assert_eq!(
        reconcile(&cluster),
        Outcome::RequeueAfter(Duration::from_millis(100))
    );
    assert!(cluster.written().is_empty());
    cluster.advance(Duration::from_millis(100));
    assert_eq!(reconcile(&cluster), Outcome::Done);
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(
        writes[0].body,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["networking.k8s.io/service-cidr-finalizer"]}})
    );
    assert!(cluster.object(KIND, "", "a").is_none());
}

#[test]
fn an_address_blocks_the_deletion_of_the_only_range_that_has_it() {
    for (address_name, expected) in [
        ("10.1.0.1", false),
        ("10.1.0.254", false),
        ("10.1.0.255", true),
        ("10.2.0.1", true),
        ("fd00::1", true),
    ] {
        let deleted = is_deleted(
            deleting(&["10.1.0.0/24"], LONG_AGO),
            [address(address_name)],
        );
        assert_eq!(deleted, expected, "{address_name}");
    }
}

#[test]
fn a_range_of_either_family_is_blocked() {
    let both = ["10.1.0.0/24", "fd00:1::/112"];
    assert!(!is_deleted(
        deleting(&both, LONG_AGO),
        [address("fd00:1::5")]
    ));
    assert!(!is_deleted(
        deleting(&both, LONG_AGO),
        [address("10.1.0.5")]
    ));
    let parent = ready("b", &["10.0.0.0/8"]);
    assert!(!is_deleted(
        deleting(&both, LONG_AGO),
        [address("fd00:1::5"), parent.clone()]
    ));
    assert!(is_deleted(
        deleting(&both, LONG_AGO),
        [address("10.1.0.5"), parent]
    ));
}

#[test]
fn a_range_within_another_one_is_deleted_whatever_its_addresses() {
    for other in ["10.0.0.0/8", "10.1.0.0/24"] {
        let others = [address("10.1.0.5"), ready("b", &[other])];
        assert!(
            is_deleted(deleting(&["10.1.0.0/24"], LONG_AGO), others),
            "{other}"
        );
    }
}

#[test]
fn smaller_ranges_that_have_all_addresses_are_enough() {
    let small = || ready("b", &["10.1.0.0/28"]);
    assert!(is_deleted(
        deleting(&["10.1.0.0/24"], LONG_AGO),
        [address("10.1.0.5"), small()]
    ));
    let others = [address("10.1.0.5"), address("10.1.0.77"), small()];
    assert!(!is_deleted(deleting(&["10.1.0.0/24"], LONG_AGO), others));
}

#[test]
fn addresses_that_no_api_server_allocated_dont_count() {
    let mut foreign = address("10.1.0.5");
    foreign["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"] = "metallb".into();
    assert!(is_deleted(deleting(&["10.1.0.0/24"], LONG_AGO), [foreign]));
}

#[test]
fn a_foreign_finalizer_is_kept_and_no_own_one_is_removed_twice() {
    let mut range = deleting(&["10.1.0.0/24"], LONG_AGO);
    range["metadata"]["finalizers"]
        .as_array_mut()
        .unwrap()
        .push("example.com/own".into());
    let cluster = Cluster::with([range]);
    reconcile(&cluster);
    reconcile(&cluster);
    assert_eq!(cluster.written(), [PATCH]);
    let left = cluster.object(KIND, "", "a").unwrap();
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/own"]));
}

#[test]
fn failures_are_retried() {
    let cluster = Cluster::with([deleting(&["10.1.0.0/24"], LONG_AGO)]);
    cluster.fail("patch", KIND, refusal(409, "Conflict"));
    assert!(
        !cluster
            .reconcile::<ServiceCidrs>("a")
            .unwrap_err()
            .is_terminal()
    );
    assert!(cluster.events().is_empty());
    reconcile(&cluster);
    assert!(cluster.object(KIND, "", "a").is_none());
}

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = ServiceCidrs::describe();
    description.check().unwrap();
    assert_eq!(description.queues[0].name, "ipaddresses");
    assert_eq!(description.queues[0].max_retries, Some(15));
    assert_eq!(description.concurrency, 5);
    assert_eq!(
        permissions(&description),
        [format!("{KIND}  patch"), format!("{KIND} status patch")]
    );
}
