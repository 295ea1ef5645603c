//! The objects of the tests, and the steps on them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::Binder;

pub(super) const PV: &str = "v1/PersistentVolume";
pub(super) const PVC: &str = "v1/PersistentVolumeClaim";
pub(super) const POD: &str = "v1/Pod";
pub(super) const CLASS: &str = "storage.k8s.io/v1/StorageClass";
pub(super) const MOCK: &str = "kubernetes.io/mock";

pub(super) const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(super) const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(super) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
pub(super) const NODE: &str = "volume.kubernetes.io/selected-node";

/// An available volume of the class "" that can be mounted by one node.
pub(super) fn volume(name: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
           "metadata": {"name": name, "uid": format!("uid-{name}")},
           "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "volumeMode": "Filesystem",
                    "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/tmp/{name}")}},
           "status": {"phase": "Available"}})
}

/// A pending claim of the class "".
pub(super) fn claim(name: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
           "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}},
                    "storageClassName": "", "volumeMode": "Filesystem"},
           "status": {"phase": "Pending"}})
}

pub(super) fn class(name: &str, provisioner: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
           "provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
}

/// A pod in the same namespace that names a claim.
pub(super) fn pod(name: &str, claim: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
           "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]},
           "status": {"phase": "Pending"}})
}

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// An object with an annotation.
pub(super) fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = value.into();
    object
}

pub(super) fn in_class(object: Value, class: &str) -> Value {
    with(object, "/spec/storageClassName", class)
}

pub(super) fn deleting(object: Value) -> Value {
    with(
        object,
        "/metadata/deletionTimestamp",
        "2026-01-01T00:00:00Z",
    )
}

/// A reference to a claim as the user writes it, without a UID.
pub(super) fn reservation(claim: &str) -> Value {
    json!({"namespace": "team", "name": claim})
}

/// A reference to a claim as the controller writes it.
pub(super) fn reference(claim: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "team", "name": claim,
           "uid": format!("uid-{claim}")})
}

/// A reference to this claim.
pub(super) fn reference_of(claim: &Value) -> Value {
    let metadata = &claim["metadata"];
    with(
        reference(&text(&metadata["name"])),
        "/uid",
        metadata["uid"].clone(),
    )
}

/// A volume that the controller has bound to a claim.
pub(super) fn bound_to(volume: Value, claim: &str) -> Value {
    let bound = with(volume, "/spec/claimRef", reference(claim));
    with(
        annotated(bound, BY_CONTROLLER, "yes"),
        "/status/phase",
        "Bound",
    )
}

/// A claim that the controller has bound to a volume of 2Gi.
pub(super) fn bound_claim(name: &str, volume: &str) -> Value {
    let bound = with(claim(name, "1Gi"), "/spec/volumeName", volume);
    let bound = annotated(annotated(bound, COMPLETED, "yes"), BY_CONTROLLER, "yes");
    let status =
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}});
    with(bound, "/status", status)
}

/// A bound pair: the volume `disk` and the claim `data`.
pub(super) fn pair() -> [Value; 2] {
    [
        bound_to(volume("disk", "2Gi"), "data"),
        bound_claim("data", "disk"),
    ]
}

/// A volume whose claim is gone.
pub(super) fn released(volume: Value, policy: &str) -> Value {
    let bound = bound_to(volume, "gone");
    with(bound, "/spec/persistentVolumeReclaimPolicy", policy)
}

pub(super) fn request(queue: &str, key: &str) -> Request {
    Request::new(queue, key)
}

pub(super) fn try_claim(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<Binder>(&request("claims", &format!("team/{name}")))
}

pub(super) fn try_volume(cluster: &Cluster, name: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<Binder>(&request("volumes", name))
}

/// Reconciles a claim, and returns the writes.
pub(super) fn sync_claim(cluster: &Cluster, name: &str) -> Vec<String> {
    try_claim(cluster, name).unwrap();
    cluster.written()
}

/// Reconciles a volume, and returns the writes.
pub(super) fn sync_volume(cluster: &Cluster, name: &str) -> Vec<String> {
    try_volume(cluster, name).unwrap();
    cluster.written()
}

/// The claim with this name.
pub(super) fn claim_of(cluster: &Cluster, name: &str) -> Value {
    cluster.object(PVC, "team", name).unwrap()
}

/// The volume with this name.
pub(super) fn volume_of(cluster: &Cluster, name: &str) -> Value {
    cluster.object(PV, "", name).unwrap()
}

/// The phase of a claim.
pub(super) fn claim_phase(cluster: &Cluster, name: &str) -> String {
    text(&claim_of(cluster, name)["status"]["phase"])
}

/// The phase of a volume.
pub(super) fn volume_phase(cluster: &Cluster, name: &str) -> String {
    text(&volume_of(cluster, name)["status"]["phase"])
}

/// The volume that a claim names.
pub(super) fn chosen(cluster: &Cluster, name: &str) -> String {
    text(&claim_of(cluster, name)["spec"]["volumeName"])
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A cluster whose only plugin is the mock.
pub(super) fn mocked(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.set_config("volume-plugin", MOCK);
    cluster
}
