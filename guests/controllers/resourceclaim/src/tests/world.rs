//! The objects of the tests, and the steps on them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::ResourceClaims;

pub(super) const CLAIM: &str = "resource.k8s.io/v1/ResourceClaim";
pub(super) const POD: &str = "v1/Pod";
pub(super) const GROUP: &str = "scheduling.k8s.io/v1beta1/PodGroup";
pub(super) const TEMPLATE: &str = "resource.k8s.io/v1/ResourceClaimTemplate";
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A reference to a template of the same name.
pub(super) fn from_template(name: &str) -> Value {
    json!({"name": name, "resourceClaimTemplateName": name})
}

/// A reference to a claim of the same name.
pub(super) fn existing(name: &str) -> Value {
    json!({"name": name, "resourceClaimName": name})
}

/// A pod with these references, which is not on a node.
pub(super) fn pod(name: &str, claims: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
           "spec": {"resourceClaims": claims}, "status": {"phase": "Pending"}})
}

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

pub(super) fn on_node(pod: Value) -> Value {
    with(pod, "/spec/nodeName", "node-0")
}

pub(super) fn deleting(object: Value) -> Value {
    with(
        object,
        "/metadata/deletionTimestamp",
        "2026-01-01T00:00:00Z",
    )
}

/// An object whose status records these claims, by their names in the spec.
pub(super) fn recorded(object: Value, claims: &[(&str, &str)]) -> Value {
    let entry = |(name, claim): &(&str, &str)| json!({"name": name, "resourceClaimName": claim});
    let entries: Vec<Value> = claims.iter().map(entry).collect();
    with(object, "/status/resourceClaimStatuses", entries)
}

pub(super) fn template(name: &str, requests: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
           "metadata": {"name": name, "namespace": "team"},
           "spec": {"metadata": {"labels": {"app": "web"}, "annotations": {"x.io/note": "hi"}},
                    "spec": {"devices": {"requests": requests}}}})
}

/// A template with one plain request.
pub(super) fn plain(name: &str) -> Value {
    template(
        name,
        json!([{"name": "a", "exactly": {"deviceClassName": "gpu"}}]),
    )
}

pub(super) fn claim(name: &str) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
           "metadata": {"name": name, "namespace": "team"}, "spec": {"devices": {}}})
}

/// A claim that a pod controls, for the reference of this name.
pub(super) fn claim_of(name: &str, pod: &str, reference: &str) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("uid-{pod}"), "controller": true});
    let annotations = json!({"resource.kubernetes.io/pod-claim-name": reference});
    let owned = with(claim(name), "/metadata/ownerReferences", json!([owner]));
    with(owned, "/metadata/annotations", annotations)
}

/// An allocated claim with the finalizer.
pub(super) fn allocated(claim: Value) -> Value {
    let held = with(claim, "/metadata/finalizers", json!([FINALIZER]));
    with(
        held,
        "/status/allocation",
        json!({"devices": {"results": []}}),
    )
}

/// A consumer in a claim's status.
pub(super) fn consumer(pod: &str) -> Value {
    json!({"resource": "pods", "name": pod, "uid": format!("uid-{pod}")})
}

/// A claim with these consumers.
pub(super) fn reserved(claim: Value, consumers: &[Value]) -> Value {
    with(claim, "/status/reservedFor", consumers)
}

pub(super) fn reconcile(cluster: &Cluster, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile::<ResourceClaims>(key)
}

/// Reconciles the pod `web`, and returns the writes.
pub(super) fn sync_web(cluster: &Cluster) -> Vec<String> {
    reconcile(cluster, "pod:team/web").unwrap();
    cluster.written()
}

/// Reconciles the claim `gpu`, and returns the writes.
pub(super) fn sync_gpu(cluster: &Cluster) -> Vec<String> {
    reconcile(cluster, "claim:team/gpu").unwrap();
    cluster.written()
}

/// The claims that the status of an object records: names in the spec, and whether a claim is named.
pub(super) fn statuses(cluster: &Cluster, kind: &str, name: &str) -> Vec<(String, Option<String>)> {
    let object = cluster.object(kind, "team", name).unwrap();
    let entries = object["status"]["resourceClaimStatuses"].as_array();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let entry = |entry: &Value| {
        let name = text(&entry["name"]).unwrap();
        (name, text(&entry["resourceClaimName"]))
    };
    entries.into_iter().flatten().map(entry).collect()
}
