//! Native tests of the condition `Unused`.

use crate::{ClaimProtection, FINALIZER, UNUSED_SINCE};
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::{
    CLAIM, LIST, claim, deleted, ephemeral_claim, naming, reconcile, with, with_ephemeral,
};

const STATUS: &str = "update v1/PersistentVolumeClaim/status team/data";
const BEFORE: &str = "2020-01-01T00:00:00Z";
const NOW: &str = "2026-01-01T00:00:00Z";

/// A cluster with the feature gate.
fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config(&format!("feature-gates.{UNUSED_SINCE}"), "true");
    cluster
}

/// Adds the condition, with an earlier transition time, after another one.
fn reporting(claim: Value, status: &str) -> Value {
    let conditions = json!([{"type": "Resizing", "status": "True"},
                            {"type": "Unused", "status": status, "lastTransitionTime": BEFORE, "lastProbeTime": BEFORE}]);
    with(claim, "/status/conditions", conditions)
}

/// Reconciles and returns the claim's conditions.
fn conditions(cluster: &Cluster, name: &str) -> Value {
    reconcile(cluster, name).unwrap();
    cluster.object(CLAIM, "team", name).unwrap()["status"]["conditions"].take()
}

fn used() -> Value {
    json!({"type": "Unused", "status": "False", "lastTransitionTime": NOW, "reason": "PodUsingPVC",
           "message": "A pod is currently referencing this PVC"})
}

fn unused() -> Value {
    json!({"type": "Unused", "status": "True", "lastTransitionTime": NOW, "reason": "NoPodsUsingPVC",
           "message": "No pods are currently referencing this PVC"})
}

#[test]
fn an_unused_claim_is_reported_after_a_live_list_and_keeps_its_status() {
    let cluster = cluster([claim()]);
    assert_eq!(conditions(&cluster, "data"), json!([unused()]));
    assert_eq!(conditions(&cluster, "data"), json!([unused()]));
    assert_eq!(cluster.live_reads()[0], LIST);
    assert_eq!(cluster.written(), [STATUS]);
    let stored = cluster.object(CLAIM, "team", "data").unwrap();
    assert_eq!(stored["status"]["capacity"], json!({"storage": "1Gi"}));
}

#[test]
fn without_the_feature_gate_nothing_is_reported() {
    let cluster = Cluster::with([claim()]);
    cluster.set_config(&format!("feature-gates.{UNUSED_SINCE}"), "false");
    reconcile(&cluster, "data").unwrap();
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
}

#[test]
fn a_claim_that_is_not_bound_is_not_reported() {
    let pending = || with(claim(), "/status/phase", "Pending");
    let pending_cluster = cluster([pending()]);
    reconcile(&pending_cluster, "data").unwrap();
    assert!(pending_cluster.written().is_empty());

    let before = cluster([pending()]);
    before.set_config("emulated-version", "1.36");
    assert_eq!(conditions(&before, "data"), json!([unused()]));
}

#[test]
fn a_claim_that_a_pod_refers_to_is_reported_as_used() {
    for pod in [
        naming("data"),
        with(naming("data"), "/spec/nodeName", ""),
        deleted(naming("data")),
    ] {
        let cluster = cluster([claim(), pod]);
        assert_eq!(conditions(&cluster, "data"), json!([used()]));
        assert!(cluster.live_reads().iter().all(|read| read != LIST));
    }
    let ephemeral = cluster([ephemeral_claim(), with_ephemeral("cache")]);
    assert_eq!(conditions(&ephemeral, "web-cache"), json!([used()]));
}

#[test]
fn a_pod_that_only_the_api_server_has_counts() {
    let cluster = cluster([claim()]);
    cluster.put_live(naming("data"));
    assert_eq!(conditions(&cluster, "data"), json!([used()]));
}

#[test]
fn terminated_pods_do_not_count() {
    let waiting = json!([{"state": {"waiting": {}}}, {"state": {"terminated": {}}}]);
    for pod in [
        with(naming("data"), "/status/phase", "Succeeded"),
        with(naming("data"), "/status/phase", "Failed"),
        with(
            deleted(naming("data")),
            "/status/containerStatuses",
            waiting,
        ),
        with(
            deleted(naming("data")),
            "/status",
            json!({"phase": "Pending"}),
        ),
    ] {
        let cluster = cluster([claim(), pod]);
        assert_eq!(conditions(&cluster, "data"), json!([unused()]));
    }
    for list in ["initContainerStatuses", "ephemeralContainerStatuses"] {
        let running = json!({"phase": "Pending", list: [{"state": {"running": {}}}]});
        let cluster = cluster([claim(), with(deleted(naming("data")), "/status", running)]);
        assert_eq!(conditions(&cluster, "data"), json!([used()]), "{list}");
    }
}

#[test]
fn a_changed_condition_is_replaced_in_its_place() {
    let other = json!({"type": "Resizing", "status": "True"});
    let used_again = cluster([reporting(claim(), "True"), naming("data")]);
    assert_eq!(conditions(&used_again, "data"), json!([other, used()]));
    for status in ["False", "Unknown"] {
        let left = cluster([reporting(claim(), status)]);
        assert_eq!(conditions(&left, "data"), json!([other, unused()]));
    }
}

#[test]
fn a_condition_that_holds_is_not_written_and_needs_no_live_list() {
    for (status, pods) in [("True", vec![]), ("False", vec![naming("data")])] {
        let cluster = cluster(pods.into_iter().chain([reporting(claim(), status)]));
        reconcile(&cluster, "data").unwrap();
        assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
    }
    let unknown = cluster([reporting(claim(), "Unknown"), naming("data")]);
    reconcile(&unknown, "data").unwrap();
    assert!(unknown.written().is_empty());
}

#[test]
fn a_claim_that_is_being_deleted_keeps_its_condition() {
    let cluster = cluster([deleted(reporting(claim(), "True"))]);
    reconcile(&cluster, "data").unwrap();
    assert_eq!(
        cluster.written(),
        ["update v1/PersistentVolumeClaim team/data"]
    );
}

#[test]
fn a_claim_gets_the_condition_and_then_the_finalizer() {
    let cluster = cluster([
        with(claim(), "/metadata/finalizers", json!([])),
        naming("data"),
    ]);
    reconcile(&cluster, "data").unwrap();
    assert_eq!(
        cluster.written(),
        [STATUS, "update v1/PersistentVolumeClaim team/data"]
    );
    let stored = cluster.object(CLAIM, "team", "data").unwrap();
    assert_eq!(
        (
            &stored["metadata"]["finalizers"],
            &stored["status"]["conditions"]
        ),
        (&json!([FINALIZER]), &json!([used()]))
    );
}

#[test]
fn a_failed_update_of_the_condition_is_retried() {
    let cluster = cluster([claim()]);
    let status = format!("{CLAIM}/status");
    cluster.fail("update", &status, refusal(409, "Conflict"));
    assert!(!reconcile(&cluster, "data").unwrap_err().is_terminal());
    assert_eq!(conditions(&cluster, "data"), json!([unused()]));
}

#[test]
fn a_claim_that_was_replaced_or_deleted_meanwhile_is_not_written() {
    for live in [
        Some(with(claim(), "/metadata/uid", "new")),
        Some(deleted(claim())),
        None,
    ] {
        let cluster = cluster([claim()]);
        match live {
            Some(live) => cluster.put_live(live),
            None => cluster.remove_live(CLAIM, "team", "data"),
        }
        reconcile(&cluster, "data").unwrap();
        assert!(cluster.written().is_empty());
    }
}

#[test]
fn with_the_feature_gate_every_change_of_a_pod_counts() {
    let cluster = cluster([]);
    let description = ClaimProtection::describe_configured(&cluster.host());
    description.check().unwrap();
    let pods = &description.watches[1];
    assert!(pods.changes.is_empty() && pods.map.iter().all(|mapping| mapping.on.is_empty()));
    assert!(pods.fields.contains(&"status.phase".to_owned()));
}
