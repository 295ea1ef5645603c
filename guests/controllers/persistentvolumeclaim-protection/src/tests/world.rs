//! Builders for the tests' objects.

use crate::{ClaimProtection, FINALIZER};
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

pub(super) const CLAIM: &str = "v1/PersistentVolumeClaim";
pub(super) const POD: &str = "v1/Pod";
pub(super) const LIST: &str = "list v1/Pod team";

/// The claim `data` with the finalizer.
pub(super) fn claim() -> Value {
    claim_named("data")
}

/// A claim with the finalizer and a status.
pub(super) fn claim_named(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"), "finalizers": [FINALIZER]},
           "spec": {"volumeName": "pv-1"},
           "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}})
}

/// The claim of the ephemeral volume `cache` of the pod `web`.
pub(super) fn ephemeral_claim() -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web", "controller": true});
    with(
        claim_named("web-cache"),
        "/metadata/ownerReferences",
        json!([owner]),
    )
}

/// The running pod `web` on a node, with these volumes.
pub(super) fn pod(volumes: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "team", "uid": "uid-web"},
           "spec": {"nodeName": "node-1", "volumes": volumes},
           "status": {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}})
}

/// A pod that names a claim.
pub(super) fn naming(claim: &str) -> Value {
    pod(
        json!([{"name": "tmp", "emptyDir": {}}, {"name": "v", "persistentVolumeClaim": {"claimName": claim}}]),
    )
}

/// A pod with an ephemeral volume of this name.
pub(super) fn with_ephemeral(volume: &str) -> Value {
    pod(json!([{"name": volume, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]))
}

pub(super) fn deleted(object: Value) -> Value {
    with(
        object,
        "/metadata/deletionTimestamp",
        "2026-01-01T00:00:00Z",
    )
}

pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

pub(super) fn reconcile(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    cluster.reconcile::<ClaimProtection>(&format!("team/{name}"))
}

/// Whether a claim still exists with the finalizer.
pub(super) fn is_held(cluster: &Cluster, name: &str) -> bool {
    cluster
        .object(CLAIM, "team", name)
        .is_some_and(|claim| claim["metadata"]["finalizers"] == json!([FINALIZER]))
}
