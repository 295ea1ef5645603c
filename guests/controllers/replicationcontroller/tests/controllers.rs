//! Native tests of the differences from the ReplicaSet controller. `flyball-replicas` tests the
//! shared behaviour.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, refusal};
use replicationcontroller_controller::ReplicationControllers;

const KIND: &str = "v1/ReplicationController";
const STATUS: &str = "update v1/ReplicationController/status default/web";

/// The ReplicationController `web`. Its selector is a plain map.
fn web(replicas: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web", "generation": 3},
        "spec": {
            "replicas": replicas,
            "selector": {"app": "web"},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}},
        },
    })
}

/// A ready orphan pod.
fn orphan(name: &str, labels: Value, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels, "creationTimestamp": "2025-12-01T00:00:00Z"},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-01T00:00:00Z"},
        ]},
    })
}

/// A ready pod of `web`.
fn pod(name: &str, node: &str) -> Value {
    let mut pod = orphan(name, json!({"app": "web"}), node);
    pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ReplicationController", "name": "web", "uid": "uid-web", "controller": true},
    ]);
    pod
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<ReplicationControllers>("default/web")
}

fn status(cluster: &Cluster) -> Value {
    cluster.object(KIND, "default", "web").unwrap()["status"].take()
}

#[test]
fn created_pods_are_owned_by_it_and_events_reference_it() {
    let cluster = Cluster::with([web(2)]);
    reconcile(&cluster).unwrap();
    let pods = cluster.objects("v1/Pod");
    assert_eq!(pods.len(), 2);
    assert_eq!(
        pods[0]["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "ReplicationController", "name": "web", "uid": "uid-web",
                "controller": true, "blockOwnerDeletion": true}])
    );
    let event = &cluster.recorded_events()[0];
    assert_eq!(
        (event.about.kind.as_str(), event.reason.as_str()),
        (KIND, "SuccessfulCreate")
    );
}

#[test]
fn its_selector_is_a_map_of_labels() {
    let cluster = Cluster::with([
        web(1),
        orphan("ours", json!({"app": "web", "tier": "front"}), "n"),
        orphan("other", json!({"app": "db"}), "n"),
    ]);
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), ["patch v1/Pod default/ours", STATUS]);
}

#[test]
fn without_a_selector_it_claims_no_pod() {
    let mut none = web(1);
    none["spec"]["selector"] = Value::Null;
    let cluster = Cluster::with([none, orphan("a", json!({"app": "web"}), "n")]);
    reconcile(&cluster).unwrap();
    assert!(
        cluster
            .written()
            .iter()
            .all(|line| !line.starts_with("patch"))
    );
}

#[test]
fn its_status_does_not_count_terminating_pods() {
    let mut going = pod("going", "n");
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let cluster = Cluster::with([web(1), pod("a", "n"), going]);
    reconcile(&cluster).unwrap();
    assert_eq!(
        status(&cluster),
        json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
               "observedGeneration": 3, "conditions": []})
    );
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [STATUS]);
}

#[test]
fn a_failed_pod_creation_sets_its_condition() {
    let cluster = Cluster::with([web(1)]);
    cluster.fail("create", "v1/Pod", refusal(403, "Forbidden"));
    reconcile(&cluster).unwrap_err();
    let condition = status(&cluster)["conditions"][0].take();
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&"ReplicaFailure".into(), &"FailedCreate".into())
    );
    assert!(cluster.events()[0].starts_with("Warning FailedCreate Error creating: "));
}

#[test]
fn pods_of_siblings_do_not_affect_which_pod_is_deleted() {
    let owner = json!([{"apiVersion": "example.com/v1", "kind": "Rollout", "name": "d", "uid": "uid-d", "controller": true}]);
    let mut ours = web(1);
    ours["metadata"]["ownerReferences"] = owner.clone();
    let mut sibling = web(1);
    sibling["metadata"] =
        json!({"name": "new", "namespace": "default", "uid": "uid-new", "ownerReferences": owner});
    sibling["spec"]["selector"] = json!({"app": "new"});
    let mut young = pod("young", "lonely");
    young["status"]["conditions"][0]["lastTransitionTime"] = "2025-12-31T00:00:00Z".into();
    let cluster = Cluster::with([
        ours,
        sibling,
        orphan("new-1", json!({"app": "new"}), "shared"),
        pod("a", "shared"),
        young,
    ]);
    reconcile(&cluster).unwrap();
    // If siblings counted, `a` would be deleted, because it shares its node with one of their pods.
    assert_eq!(cluster.written()[0], "delete v1/Pod default/young");
    assert!(cluster.metrics().is_empty());
}

#[test]
fn its_description_names_only_its_own_kind() {
    let description = ReplicationControllers::describe();
    assert_eq!(description.name, "replicationcontroller-controller");
    assert_eq!(description.event_source, "replication-controller");
    assert_eq!(description.queues[0].name, "replicationmanager");
    assert!(
        !serde_json::to_string(&description)
            .unwrap()
            .contains("ReplicaSet")
    );
}
