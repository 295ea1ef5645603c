//! A cluster with nodes, volumes, claims and pods, and the part of an external attacher.

use std::time::Duration;

use flyball_sdk::RoutedKey;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};
use flyball_volume_plugins::csi::Source;

use crate::AttachDetach;
use crate::describe::QUEUE;
use crate::memory::Memory;
use crate::wake::CLAIMS;

pub(super) const ATTACHMENT: &str = "storage.k8s.io/v1/VolumeAttachment";
pub(super) const DRIVER: &str = "csi.example.com";
pub(super) const NODE: &str = "v1/Node";
pub(super) const POD: &str = "v1/Pod";
pub(super) const PV: &str = "v1/PersistentVolume";
pub(super) const PVC: &str = "v1/PersistentVolumeClaim";

/// The unique name of the CSI volume with this handle.
pub(super) fn unique(handle: &str) -> String {
    format!("kubernetes.io/csi/{DRIVER}^{handle}")
}

/// The name of its VolumeAttachment.
pub(super) fn attachment_name(handle: &str, node: &str) -> String {
    let source = Source {
        driver: DRIVER,
        handle,
    };
    source.attachment_name(node)
}

/// A node that is ready, and managed by the controller.
pub(super) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A volume that is bound to the claim with its name in the namespace `team`.
pub(super) fn volume(name: &str, modes: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "accessModes": modes,
            "claimRef": {"namespace": "team", "name": name, "uid": format!("uid-of-{name}")},
            "csi": {"driver": DRIVER, "volumeHandle": name},
        },
        "status": {"phase": "Bound"},
    })
}

/// A claim that is bound to the volume with its name.
pub(super) fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "team", "name": name, "uid": format!("uid-of-{name}")},
        "spec": {"volumeName": name}, "status": {"phase": "Bound"},
    })
}

/// A pod at a node with these claims.
pub(super) fn pod(name: &str, node: &str, claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({"name": format!("v-{claim}"), "persistentVolumeClaim": {"claimName": claim}});
    let volumes: Vec<Value> = claims.iter().map(volume).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "team", "name": name},
        "spec": {"nodeName": node, "volumes": volumes}, "status": {"phase": "Running"},
    })
}

/// A cluster with the nodes `a` and `b`, and the exclusive volume `disk` with its claim.
pub(super) fn cluster() -> Cluster {
    Cluster::with([
        node("a"),
        node("b"),
        volume("disk", &["ReadWriteOnce"]),
        claim("disk"),
    ])
}

/// A cluster whose node `a` has the volume `disk` for the pod `web`.
pub(super) fn attached() -> Cluster {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    pass(&cluster, "a");
    answer(&cluster, "disk", "a", json!({"attached": true}));
    pass(&cluster, "a");
    forget(&cluster);
    cluster
}

/// Reconciles a node.
pub(super) fn pass(cluster: &Cluster, node: &str) -> Outcome {
    let request = Request::new(QUEUE, node);
    cluster.reconcile_request::<AttachDetach>(&request).unwrap()
}

/// Reconciles all nodes that were enqueued, and those that they enqueue.
pub(super) fn pass_enqueued(cluster: &Cluster) {
    loop {
        let enqueued = cluster.enqueued();
        if enqueued.is_empty() {
            return;
        }
        for one in enqueued {
            pass(cluster, &one.key);
        }
    }
}

/// Looks at the whole cluster: `verification`, `drivers` or `nodes`.
pub(super) fn look(cluster: &Cluster, name: &str) {
    pass(cluster, &format!("all/{name}"));
}

/// Reconciles a claim, and returns the nodes that it wakes.
pub(super) fn woken_by_claim(cluster: &Cluster, claim: &str) -> Vec<String> {
    let request = Request::new(CLAIMS, claim);
    cluster.reconcile_request::<AttachDetach>(&request).unwrap();
    enqueued(cluster)
}

pub(super) fn enqueued(cluster: &Cluster) -> Vec<String> {
    let keys = cluster.enqueued().into_iter().map(|one| one.key);
    keys.collect()
}

/// Compares the attached volumes of all nodes with their VolumeAttachments.
pub(super) fn verify(cluster: &Cluster) {
    look(cluster, "verification");
    for key in enqueued(cluster) {
        pass(cluster, &key);
    }
}

/// Sets the status of a VolumeAttachment, as an attacher does.
pub(super) fn answer(cluster: &Cluster, handle: &str, node: &str, status: Value) {
    let name = attachment_name(handle, node);
    cluster.edit(ATTACHMENT, "", &name, |attachment| {
        attachment["status"] = status;
    });
}

/// Makes an attacher responsible for detaching a volume: the VolumeAttachment stays until [`release`].
pub(super) fn hold(cluster: &Cluster, handle: &str, node: &str) {
    let name = attachment_name(handle, node);
    cluster.edit(ATTACHMENT, "", &name, |attachment| {
        attachment["metadata"]["finalizers"] = json!(["example.com/attacher"]);
    });
}

/// Detaches a volume, as an attacher does.
pub(super) fn release(cluster: &Cluster, handle: &str, node: &str) {
    cluster.remove(ATTACHMENT, "", &attachment_name(handle, node));
}

/// Sets the volumes that a kubelet uses.
pub(super) fn mount(cluster: &Cluster, node: &str, handles: &[&str]) {
    let names: Vec<String> = handles.iter().map(|handle| unique(handle)).collect();
    cluster.edit(NODE, "", node, |node| {
        node["status"]["volumesInUse"] = json!(names);
    });
}

/// Deletes a node.
pub(super) fn delete_node(cluster: &Cluster, name: &str) {
    let node = cluster.object(NODE, "", name).unwrap();
    cluster.remove(NODE, "", name);
    let routed = cluster.route::<AttachDetach>(&[delta(NODE, Some(&node), None)]);
    assert_eq!(routed.unwrap(), [RoutedKey::now(Key::new("", name))]);
}

/// Makes a node ready or not.
pub(super) fn set_ready(cluster: &Cluster, node: &str, is_ready: bool) {
    let status = if is_ready { "True" } else { "Unknown" };
    cluster.edit(NODE, "", node, |node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": status}]);
    });
}

/// The names in `status.volumesAttached` of a node.
pub(super) fn reported(cluster: &Cluster, node: &str) -> Vec<String> {
    let node = cluster.object(NODE, "", node).unwrap_or_default();
    let volumes = node["status"]["volumesAttached"].as_array();
    let name = |volume: &Value| volume["name"].as_str().unwrap().to_owned();
    volumes.into_iter().flatten().map(name).collect()
}

/// The nodes and the handles of VolumeAttachments, `a disk`.
pub(super) fn attachments(cluster: &Cluster) -> Vec<String> {
    let line = |attachment: Value| {
        let spec = &attachment["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!(
            "{} {}",
            text(&spec["nodeName"]),
            text(&spec["source"]["persistentVolumeName"])
        )
    };
    let mut lines: Vec<String> = { cluster.objects(ATTACHMENT).into_iter() }
        .map(line)
        .collect();
    lines.sort();
    lines
}

/// The memory of a node.
pub(super) fn memory(cluster: &Cluster, node: &str) -> Memory {
    Memory::recall(&cluster.host(), node, None)
}

/// Empties the memo of what concerns these nodes and volumes, as a restart does.
pub(super) fn restart(cluster: &Cluster, nodes: &[&str], handles: &[&str]) {
    let host = cluster.host();
    let memo = host.memo();
    memo.remove("drivers");
    memo.remove("deleted");
    for node in nodes {
        memo.remove(&format!("node/{node}"));
        memo.remove(&format!("last-use/{node}"));
        for handle in handles {
            memo.remove(&format!("unmounting/{node}/{}", unique(handle)));
        }
    }
    for handle in handles {
        memo.remove(&format!("operations/{}", unique(handle)));
        memo.remove(&format!("waiting/{}", unique(handle)));
    }
}

pub(super) fn advance(cluster: &Cluster, seconds: u64) {
    cluster.advance(Duration::from_secs(seconds));
}

/// Drops all recorded writes, events, keys, reads and metrics.
pub(super) fn forget(cluster: &Cluster) {
    drop((cluster.writes(), cluster.events(), cluster.enqueued()));
    drop((cluster.live_reads(), cluster.metrics()));
}

/// The writes without names of VolumeAttachments.
pub(super) fn written(cluster: &Cluster) -> Vec<String> {
    let line = |write: String| match write.split_once(" csi-") {
        Some((verb, name)) => {
            let rest = name.get(64..).unwrap_or_default();
            format!("{verb}{rest}").replace("storage.k8s.io/v1/", "")
        }
        None => write,
    };
    cluster.written().into_iter().map(line).collect()
}
