//! The objects of the tests, and the steps on them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::SelinuxWarnings;

pub(super) const POD: &str = "v1/Pod";
pub(super) const CLAIM: &str = "v1/PersistentVolumeClaim";
pub(super) const VOLUME: &str = "v1/PersistentVolume";
pub(super) const DRIVER: &str = "storage.k8s.io/v1/CSIDriver";

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// A pod in the namespace `team` that mounts the claim `data`, with this level in its label.
pub(super) fn pod(name: &str, level: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
           "spec": {"securityContext": {"seLinuxOptions": {"level": level}},
                    "containers": [{"name": "app", "volumeMounts": [{"name": "data"}]}],
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
           "status": {"phase": "Running"}})
}

/// The same in another namespace.
pub(super) fn in_namespace(namespace: &str, object: Value) -> Value {
    with(object, "/metadata/namespace", namespace)
}

/// A pod that relabels its volumes' files one by one.
pub(super) fn recursive(pod: Value) -> Value {
    with(
        pod,
        "/spec/securityContext/seLinuxChangePolicy",
        "Recursive",
    )
}

/// The claim `data`, bound to this volume.
pub(super) fn claim(volume: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
           "metadata": {"name": "data", "namespace": "team", "uid": "uid-data"},
           "spec": {"volumeName": volume}, "status": {"phase": "Bound"}})
}

/// The volume of the claim `data`, with this source.
pub(super) fn volume(name: &str, field: &str, source: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
           "spec": {field: source,
                    "claimRef": {"namespace": "team", "name": "data", "uid": "uid-data"}}})
}

/// The disk `disk-1` of the driver `csi.example.com`.
pub(super) fn csi(name: &str) -> Value {
    let source = json!({"driver": "csi.example.com", "volumeHandle": "disk-1"});
    volume(name, "csi", source)
}

/// The driver, whose volumes may be mounted with a label.
pub(super) fn driver(supports_labels: bool) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
           "metadata": {"name": "csi.example.com"}, "spec": {"seLinuxMount": supports_labels}})
}

/// A cluster with a disk that can be mounted with a label, and these pods.
pub(super) fn cluster(pods: impl IntoIterator<Item = Value>) -> Cluster {
    let disk = [claim("pv-1"), csi("pv-1"), driver(true)];
    Cluster::with(disk.into_iter().chain(pods))
}

/// Reconciles pods, and returns the events: the pod and the reason.
pub(super) fn sync(cluster: &Cluster, pods: &[&str]) -> Vec<String> {
    for pod in pods {
        cluster.reconcile::<SelinuxWarnings>(pod).unwrap();
    }
    let events = cluster.recorded_events().into_iter();
    let line =
        |event: flyball_sdk::testing::Event| format!("{} {}", event.about.name, event.reason);
    events.map(line).collect()
}

/// The series of the gauge since the last call: the property, the two pods, and the value.
pub(super) fn counted(cluster: &Cluster) -> Vec<String> {
    let series = cluster.metrics().into_iter();
    let line = |labels: Vec<String>, value: f64| {
        format!("{} {} {} {value}", labels[0], labels[2], labels[5])
    };
    series
        .map(|(_, _, labels, value)| line(labels, value))
        .collect()
}

/// The events about two pods whose labels conflict.
pub(super) fn label_conflict(one: &str, other: &str) -> [String; 2] {
    [one, other].map(|pod| format!("{pod} SELinuxLabelConflict"))
}
