//! Native tests of the whole controller.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, permissions, refusal};
use podgroup_protection_controller::{FINALIZER, GroupProtection};

const GROUP: &str = "scheduling.k8s.io/v1beta1/PodGroup";
const UPDATE: &str = "update scheduling.k8s.io/v1beta1/PodGroup team/train";

/// A PodGroup that is being deleted.
fn deleted() -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
           "metadata": {"name": "train", "namespace": "team", "uid": "uid-train",
                        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/other", FINALIZER]}})
}

/// A pod in this namespace and phase that names a group.
fn pod(namespace: &str, group: &str, phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": namespace},
           "spec": {"schedulingGroup": {"podGroupName": group}}, "status": {"phase": phase}})
}

fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<GroupProtection>("team/train")
}

/// Reconciles, and returns the writes and the finalizers that are left.
fn settle(objects: impl IntoIterator<Item = Value>) -> (Vec<String>, Value) {
    let cluster = Cluster::with(objects);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    let left = cluster.object(GROUP, "team", "train").unwrap_or_default();
    (cluster.written(), left["metadata"]["finalizers"].clone())
}

#[test]
fn a_group_that_is_deleted_is_released_when_no_pod_uses_it() {
    let released = (vec![UPDATE.to_owned()], json!(["x.io/other"]));
    assert_eq!(settle([deleted()]), released);
    for unused in [
        pod("team", "train", "Succeeded"),
        pod("team", "train", "Failed"),
        pod("team", "other", "Running"),
        pod("crew", "train", "Running"),
    ] {
        assert_eq!(settle([deleted(), unused]), released);
    }
}

#[test]
fn a_group_that_a_pod_uses_is_kept() {
    for phase in ["", "Pending", "Running", "Unknown"] {
        let (writes, finalizers) = settle([deleted(), pod("team", "train", phase)]);
        assert!(writes.is_empty(), "{phase}: {writes:?}");
        assert_eq!(finalizers, json!(["x.io/other", FINALIZER]));
    }
}

#[test]
fn a_group_that_is_not_deleted_or_not_protected_is_left_alone() {
    let mut kept = deleted();
    kept["metadata"]["deletionTimestamp"] = Value::Null;
    let mut free = deleted();
    free["metadata"]["finalizers"] = json!(["x.io/other"]);
    for objects in [vec![kept], vec![free], vec![]] {
        assert!(settle(objects).0.is_empty());
    }
}

#[test]
fn a_group_that_was_deleted_meanwhile_is_done_and_other_failures_are_retried() {
    for (status, reason, is_done) in [
        (404, "NotFound", true),
        (409, "Conflict", false),
        (500, "InternalError", false),
    ] {
        let cluster = Cluster::with([deleted()]);
        cluster.fail("update", GROUP, refusal(status, reason));
        let result = reconcile(&cluster);
        assert_eq!(result.is_ok(), is_done, "{reason}");
        assert!(result.is_ok() || !result.unwrap_err().is_terminal());
    }
}

#[test]
fn groups_and_the_ends_of_their_pods_are_watched() {
    let description = GroupProtection::describe();
    description.check().unwrap();
    assert_eq!(permissions(&description), [format!("{GROUP}  get,update")]);
    let maps: Vec<Value> = { description.watches.iter() }
        .map(|watch| serde_json::to_value(watch).unwrap()["map"].clone())
        .collect();
    assert_eq!(
        maps,
        [
            json!([{"to": "itself", "on": ["added", "modified"], "deleting": true}]),
            json!([{"to": "named", "path": "spec.schedulingGroup.podGroupName", "namespaced": true,
                    "on": ["modified", "deleted"]}]),
        ]
    );
}

#[test]
fn groups_have_the_version_of_the_emulated_release() {
    let mut group = deleted();
    group["apiVersion"] = json!("scheduling.k8s.io/v1alpha2");
    let cluster = Cluster::with([group]);
    cluster.set_config("emulated-version", "1.36");
    let described = GroupProtection::describe_configured(&cluster.host());
    described.check().unwrap();
    let kind = "scheduling.k8s.io/v1alpha2/PodGroup";
    assert_eq!(permissions(&described), [format!("{kind}  get,update")]);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [format!("update {kind} team/train")]);
}
