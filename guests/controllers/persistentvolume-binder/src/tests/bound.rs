//! Claims without a volume, and the four writes of a binding.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

const BINDING: [&str; 4] = [
    "update v1/PersistentVolume disk",
    "update v1/PersistentVolume/status disk",
    "update v1/PersistentVolumeClaim team/data",
    "update v1/PersistentVolumeClaim/status team/data",
];

#[test]
fn a_claim_and_a_volume_are_bound_by_four_writes() {
    let cluster = Cluster::with([volume("disk", "2Gi"), claim("data", "1Gi")]);
    assert_eq!(sync_claim(&cluster, "data"), BINDING);
    let (disk, data) = (volume_of(&cluster, "disk"), claim_of(&cluster, "data"));
    assert_eq!(disk["spec"]["claimRef"]["uid"], "uid-data");
    assert_eq!(disk["spec"]["claimRef"]["kind"], "PersistentVolumeClaim");
    assert_eq!(disk["spec"]["claimRef"]["apiVersion"], "v1");
    assert_eq!(
        disk["metadata"]["annotations"],
        json!({BY_CONTROLLER: "yes"})
    );
    assert_eq!(disk["status"]["phase"], "Bound");
    assert_eq!(data["spec"]["volumeName"], "disk");
    assert_eq!(
        data["metadata"]["annotations"],
        json!({BY_CONTROLLER: "yes", COMPLETED: "yes"})
    );
    let status =
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}});
    assert_eq!(data["status"], status);
    assert!(sync_claim(&cluster, "data").is_empty() && sync_volume(&cluster, "disk").is_empty());
    assert!(cluster.live_reads().is_empty());
}

#[test]
fn a_claim_without_a_volume_waits_and_says_so_each_time() {
    let cluster = Cluster::with([claim("data", "1Gi")]);
    let event = "Normal FailedBinding no persistent volumes available for this claim and no storage class is set";
    for _ in 0..2 {
        assert!(sync_claim(&cluster, "data").is_empty());
        assert_eq!(cluster.events(), [event]);
    }
}

#[test]
fn a_waiting_claim_is_pending_and_has_no_capacity() {
    let status = json!({"phase": "Lost", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                        "currentVolumeAttributesClassName": "gold", "conditions": []});
    let cluster = Cluster::with([with(claim("data", "1Gi"), "/status", status)]);
    assert_eq!(sync_claim(&cluster, "data"), BINDING[3..]);
    let expected = json!({"phase": "Pending", "conditions": []});
    assert_eq!(claim_of(&cluster, "data")["status"], expected);
}

#[test]
fn the_capacity_is_that_before_a_resize_of_the_file_system() {
    for (annotation, expected) in [("1Gi", "1Gi"), ("much", "2Gi")] {
        let key = "volume.alpha.kubernetes.io/pre-resize-capacity";
        let disk = annotated(volume("disk", "2Gi"), key, annotation);
        let cluster = Cluster::with([disk, claim("data", "1Gi")]);
        sync_claim(&cluster, "data");
        let capacity = &claim_of(&cluster, "data")["status"]["capacity"];
        assert_eq!(*capacity, json!({"storage": expected}));
    }
}

#[test]
fn the_capacity_of_a_bound_claim_is_left_alone_and_its_modes_follow() {
    let [disk, data] = pair();
    let data = with(data, "/status/capacity/storage", "500Mi");
    let modes = json!(["ReadWriteOnce", "ReadOnlyMany"]);
    let disk = with(disk, "/spec/accessModes", modes.clone());
    let cluster = Cluster::with([disk, data]);
    assert_eq!(sync_claim(&cluster, "data"), BINDING[3..]);
    let status = &claim_of(&cluster, "data")["status"];
    assert_eq!(status["capacity"]["storage"], "500Mi");
    assert_eq!(status["accessModes"], modes);
}

#[test]
fn a_volume_without_a_capacity_is_an_error() {
    let disk = bound_to(volume("disk", "2Gi"), "data");
    let cluster = Cluster::with([
        with(disk, "/spec/capacity", json!({})),
        with(bound_claim("data", "disk"), "/status/phase", "Pending"),
    ]);
    let error = try_claim(&cluster, "data").unwrap_err();
    let expected = "PersistentVolume \"disk\" is without a storage capacity";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_attributes_class_is_recorded_when_a_claim_becomes_bound() {
    let disk = with(
        volume("disk", "2Gi"),
        "/spec/volumeAttributesClassName",
        "gold",
    );
    let data = with(
        claim("data", "1Gi"),
        "/spec/volumeAttributesClassName",
        "gold",
    );
    let cluster = Cluster::with([disk, data]);
    sync_claim(&cluster, "data");
    let current = |cluster: &Cluster| {
        claim_of(cluster, "data")["status"]["currentVolumeAttributesClassName"].clone()
    };
    assert_eq!(current(&cluster), "gold");
    // Later, it belongs to the resizer.
    cluster.edit(PV, "", "disk", |disk| {
        disk["spec"]["volumeAttributesClassName"] = "silver".into()
    });
    sync_claim(&cluster, "data");
    assert_eq!(current(&cluster), "gold");
}

#[test]
fn a_claim_without_a_class_gets_the_default_one_which_may_come_late() {
    let mut free = claim("data", "1Gi");
    free["spec"]
        .as_object_mut()
        .unwrap()
        .remove("storageClassName");
    let cluster = Cluster::with([free]);
    sync_claim(&cluster, "data");
    assert_eq!(cluster.events().len(), 1);
    let default = |name: &str, created: &str| {
        let class = annotated(
            class(name, "example.com/csi"),
            "storageclass.kubernetes.io/is-default-class",
            "true",
        );
        with(class, "/metadata/creationTimestamp", created)
    };
    cluster.put(default("old", "2025-01-01T00:00:00Z"));
    cluster.put(default("new-b", "2025-06-01T00:00:00Z"));
    cluster.put(default("new-a", "2025-06-01T00:00:00Z"));
    assert_eq!(sync_claim(&cluster, "data"), BINDING[2..3]);
    assert_eq!(
        claim_of(&cluster, "data")["spec"]["storageClassName"],
        "new-a"
    );
    assert!(cluster.events().is_empty());
    let counted: Vec<_> = cluster
        .metrics()
        .into_iter()
        .map(|(_, name, ..)| name)
        .collect();
    assert_eq!(counted, ["retroactive_storageclass_total"]);
}

#[test]
fn volumes_without_a_class_come_before_the_default_class() {
    let mut free = claim("data", "1Gi");
    free["spec"]
        .as_object_mut()
        .unwrap()
        .remove("storageClassName");
    let default = annotated(
        class("fast", "example.com/csi"),
        "storageclass.beta.kubernetes.io/is-default-class",
        "true",
    );
    let cluster = Cluster::with([free, volume("disk", "2Gi"), default]);
    assert_eq!(sync_claim(&cluster, "data"), BINDING);
}

#[test]
fn the_empty_class_is_a_class() {
    let default = annotated(
        class("fast", "example.com/csi"),
        "storageclass.kubernetes.io/is-default-class",
        "true",
    );
    let by_annotation = annotated(
        claim("other", "1Gi"),
        "volume.beta.kubernetes.io/storage-class",
        "",
    );
    let cluster = Cluster::with([claim("data", "1Gi"), by_annotation, default]);
    assert!(sync_claim(&cluster, "data").is_empty());
    assert!(sync_claim(&cluster, "other").is_empty());
}
