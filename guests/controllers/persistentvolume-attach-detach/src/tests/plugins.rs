//! Drivers and plugins: those without attachments, volumes of migrated kinds, and the mock for tests.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};
use flyball_volume_plugins::csi::Source;

use super::world::*;
use crate::metrics::FORCED;

const EBS: &str = "ebs.csi.aws.com";

fn driver(attach_required: Option<bool>) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"attachRequired": attach_required},
    })
}

#[test]
fn a_driver_decides_whether_its_volumes_are_attached() {
    let cluster = cluster();
    cluster.put(pod("web", "a", &["disk"]));
    cluster.put(driver(Some(false)));
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
    for required in [Some(true), None] {
        cluster.put(driver(required));
        pass(&cluster, "a");
    }
    assert_eq!(written(&cluster), ["create VolumeAttachment"]);
}

#[test]
fn a_driver_that_changes_its_mind_is_noticed_by_the_next_look() {
    let cluster = attached();
    look(&cluster, "drivers");
    assert_eq!(enqueued(&cluster), ["a", "b"]);
    look(&cluster, "drivers");
    assert!(enqueued(&cluster).is_empty());
    cluster.put(driver(Some(false)));
    look(&cluster, "drivers");
    pass_enqueued(&cluster);
    assert!(attachments(&cluster).is_empty() && reported(&cluster, "a").is_empty());
    cluster.put(driver(Some(true)));
    look(&cluster, "drivers");
    pass_enqueued(&cluster);
    assert_eq!(attachments(&cluster), ["a disk"]);
}

#[test]
fn all_nodes_are_looked_at_from_time_to_time() {
    let cluster = cluster();
    look(&cluster, "nodes");
    assert_eq!(enqueued(&cluster), ["a", "b"]);
}

#[test]
fn volumes_within_pods_are_attached_only_if_they_are_of_a_migrated_kind() {
    let cluster = Cluster::with([node("a")]);
    let mut web = pod("web", "a", &[]);
    web["spec"]["volumes"] = json!([
        {"name": "inline", "csi": {"driver": DRIVER}},
        {"name": "scratch"},
        {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1", "fsType": "ext4"}},
    ]);
    cluster.put(web);
    pass(&cluster, "a");
    let name = Source {
        driver: EBS,
        handle: "vol-1",
    }
    .attachment_name("a");
    let attachment = cluster.object(ATTACHMENT, "", &name).unwrap();
    let spec = &attachment["spec"]["source"]["inlineVolumeSpec"];
    assert_eq!(spec["csi"]["volumeHandle"], "vol-1");
    assert_eq!(spec["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(cluster.objects(ATTACHMENT).len(), 1);
    cluster.edit(ATTACHMENT, "", &name, |attachment| {
        attachment["status"] = json!({"attached": true});
    });
    pass(&cluster, "a");
    assert_eq!(
        cluster.events(),
        [format!(
            "Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"{EBS}-vol-1\" "
        )]
    );
    assert_eq!(
        reported(&cluster, "a"),
        [format!("kubernetes.io/csi/{EBS}^vol-1")]
    );
    // After a restart, the attachment tells what it is.
    cluster.remove(POD, "team", "web");
    restart(&cluster, &["a"], &[]);
    cluster.edit(NODE, "", "a", |node| {
        node["status"]["volumesAttached"] = json!([])
    });
    pass(&cluster, "a");
    assert!(cluster.objects(ATTACHMENT).is_empty());
}

#[test]
fn a_persistent_volume_of_a_migrated_kind_has_the_handle_of_its_driver() {
    let mut disk = volume("disk", &["ReadWriteOnce"]);
    disk["spec"]["csi"] = Value::Null;
    disk["spec"]["awsElasticBlockStore"] = json!({"volumeID": "aws://zone-a/vol-1"});
    let cluster = Cluster::with([node("a"), disk, claim("disk"), pod("web", "a", &["disk"])]);
    pass(&cluster, "a");
    let name = Source {
        driver: EBS,
        handle: "vol-1",
    }
    .attachment_name("a");
    let attachment = cluster.object(ATTACHMENT, "", &name).unwrap();
    assert_eq!(attachment["spec"]["attacher"], EBS);
    assert_eq!(
        attachment["spec"]["source"],
        json!({"persistentVolumeName": "disk"})
    );
}

#[test]
fn iscsi_is_attached_at_once_and_to_one_node_at_a_time() {
    let mut disk = volume("disk", &["ReadWriteOnce"]);
    disk["spec"]["csi"] = Value::Null;
    disk["spec"]["iscsi"] = json!({"targetPortal": "10.0.0.1:3260", "iqn": "iqn.x", "lun": 1});
    let cluster = Cluster::with([
        node("a"),
        node("b"),
        disk,
        claim("disk"),
        pod("web", "a", &["disk"]),
        pod("late", "b", &["disk"]),
    ]);
    pass(&cluster, "a");
    pass(&cluster, "b");
    assert_eq!(
        reported(&cluster, "a"),
        ["kubernetes.io/iscsi/10.0.0.1:3260:iqn.x:1"]
    );
    assert_eq!(cluster.events().len(), 2);
    cluster.remove(POD, "team", "web");
    forget(&cluster);
    pass(&cluster, "a");
    pass_enqueued(&cluster);
    assert!(reported(&cluster, "a").is_empty());
    assert_eq!(reported(&cluster, "b").len(), 1);
    assert_eq!(
        written(&cluster),
        ["patch v1/Node/status a", "patch v1/Node/status b"]
    );
}

/// A cluster with the mock of Kubernetes' integration tests.
fn mocked() -> Cluster {
    let cluster = cluster();
    cluster.set_config("volume-plugin", "kubernetes.io/mock-provisioner");
    let mut web = pod("web", "a", &[]);
    web["spec"]["volumes"] = json!([{"name": "fake-mount", "hostPath": {"path": "/var/www"}}]);
    cluster.put(web);
    pass(&cluster, "a");
    cluster
}

#[test]
fn the_mock_attaches_the_volumes_of_all_kinds_at_once() {
    let cluster = mocked();
    let node = cluster.object(NODE, "", "a").unwrap();
    assert_eq!(
        node["status"]["volumesAttached"],
        json!([{"name": "kubernetes.io/mock-provisioner/fake-mount", "devicePath": "/dev/vdb-test"}])
    );
    assert_eq!(
        cluster.events(),
        ["Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"fake-mount\" "]
    );
    cluster.put(pod("db", "b", &["disk"]));
    pass(&cluster, "b");
    assert_eq!(
        reported(&cluster, "b"),
        ["kubernetes.io/mock-provisioner/disk"]
    );
}

#[test]
fn a_status_that_can_not_be_written_delays_the_mock() {
    let cluster = cluster();
    cluster.set_config("volume-plugin", "kubernetes.io/mock-provisioner");
    cluster.put(pod("web", "a", &["disk"]));
    cluster.fail("patch", "v1/Node/status", refusal(500, "InternalError"));
    pass(&cluster, "a");
    assert!(cluster.events().is_empty());
    pass(&cluster, "a");
    assert_eq!(reported(&cluster, "a").len(), 1);
    assert_eq!(cluster.events().len(), 1);
}

#[test]
fn a_volume_is_detached_by_force_even_if_its_node_was_overwritten() {
    let cluster = mocked();
    // The test of Kubernetes replaces the whole status, and updates the node with the version of that.
    cluster.edit(NODE, "", "a", |node| {
        node["status"] = json!({"volumesInUse": ["kubernetes.io/mock-provisioner/fake-mount"]});
    });
    forget(&cluster);
    pass(&cluster, "a");
    cluster.edit(POD, "team", "web", |pod| {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:00Z".into();
        pod["status"] = json!({});
    });
    pass(&cluster, "a");
    assert!(written(&cluster).is_empty());
    cluster.edit(NODE, "", "a", |node| {
        node["spec"]["taints"] =
            json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    });
    pass(&cluster, "a");
    let metrics = cluster.metrics();
    assert!(metrics.iter().any(|(_, name, labels, _)| {
        name == FORCED && labels[..] == ["out-of-service".to_owned()]
    }));
    assert!(memory(&cluster, "a").volumes.is_empty());
}
