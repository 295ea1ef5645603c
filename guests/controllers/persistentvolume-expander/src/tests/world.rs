//! The objects of the tests, and the steps on them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::Expansion;

pub(super) const CLAIM: &str = "v1/PersistentVolumeClaim";
pub(super) const VOLUME: &str = "v1/PersistentVolume";

/// A claim that is bound to the volume `pv-1`.
pub(super) fn claim(request: &str, capacity: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
           "metadata": {"name": "data", "namespace": "team", "uid": "uid-data"},
           "spec": {"volumeName": "pv-1", "resources": {"requests": {"storage": request}}},
           "status": {"phase": "Bound", "capacity": {"storage": capacity}}})
}

/// The volume of the claim, with this source.
pub(super) fn volume(capacity: &str, field: &str, source: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
           "spec": {"capacity": {"storage": capacity}, field: source, "volumeMode": "Filesystem",
                    "claimRef": {"namespace": "team", "name": "data", "uid": "uid-data"}}})
}

/// A FlexVolume of the driver `example.com/flex`.
pub(super) fn flex(capacity: &str) -> Value {
    volume(
        capacity,
        "flexVolume",
        json!({"driver": "example.com/flex"}),
    )
}

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// A volume that a node has yet to expand.
pub(super) fn resizing(volume: Value, before: &str) -> Value {
    let annotations = json!({"volume.alpha.kubernetes.io/pre-resize-capacity": before});
    with(volume, "/metadata/annotations", annotations)
}

/// A claim with an expansion in this state.
pub(super) fn expanding(claim: Value, size: &str, status: &str) -> Value {
    let sized = with(
        claim,
        "/status/allocatedResources",
        json!({"storage": size}),
    );
    let statuses = json!({"storage": status});
    with(sized, "/status/allocatedResourceStatuses", statuses)
}

pub(super) fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<Expansion>("team/data")
}

/// Reconciles the claim, and returns the events and the writes.
pub(super) fn sync(cluster: &Cluster) -> (Vec<String>, Vec<String>) {
    reconcile(cluster).unwrap();
    (cluster.events(), cluster.written())
}

/// The claim as it is now.
pub(super) fn claim_of(cluster: &Cluster) -> Value {
    cluster.object(CLAIM, "team", "data").unwrap()
}

/// The volume as it is now.
pub(super) fn volume_of(cluster: &Cluster) -> Value {
    cluster.object(VOLUME, "", "pv-1").unwrap()
}
