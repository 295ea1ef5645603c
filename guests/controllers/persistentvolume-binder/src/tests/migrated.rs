//! Annotations and finalizers of claims and volumes whose in-tree plugin was replaced.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

const IN_TREE: &str = "kubernetes.io/pv-controller";
const EXTERNAL: &str = "external-provisioner.volume.kubernetes.io/finalizer";
const UPDATE: &str = "update v1/PersistentVolume disk";

/// A bound volume of this provisioner, with finalizers.
fn provisioned(by: &str, policy: &str, finalizers: &[&str]) -> Value {
    let disk = annotated(bound_to(volume("disk", "2Gi"), "data"), PROVISIONED_BY, by);
    let disk = with(disk, "/spec/persistentVolumeReclaimPolicy", policy);
    with(disk, "/metadata/finalizers", json!(finalizers))
}

/// The finalizers and the driver of a volume after a reconcile, which writes it at most once.
fn settled(disk: Value) -> (Vec<String>, Value, Value) {
    let cluster = Cluster::with([disk, bound_claim("data", "disk")]);
    let writes = sync_volume(&cluster, "disk");
    assert!(sync_volume(&cluster, "disk").is_empty());
    let metadata = &volume_of(&cluster, "disk")["metadata"];
    let driver = metadata["annotations"][MIGRATED_TO].clone();
    (writes, metadata["finalizers"].clone(), driver)
}

#[test]
fn a_migrated_volume_is_left_to_its_driver() {
    let disk = provisioned("kubernetes.io/gce-pd", "Delete", &["a", IN_TREE, EXTERNAL]);
    let (writes, finalizers, driver) = settled(disk);
    assert_eq!(
        (writes, finalizers),
        (vec![UPDATE.to_owned()], json!(["a", EXTERNAL]))
    );
    assert_eq!(driver, "pd.csi.storage.gke.io");
}

#[test]
fn an_in_tree_volume_has_the_finalizer_if_it_will_be_deleted() {
    let name = "kubernetes.io/host-path";
    for (policy, before, after) in [
        ("Delete", vec!["a", EXTERNAL], json!(["a", IN_TREE])),
        ("Delete", vec![IN_TREE], json!([IN_TREE])),
        ("Retain", vec![IN_TREE, "a"], json!(["a"])),
        ("Recycle", vec![IN_TREE, "a", EXTERNAL], json!(["a"])),
    ] {
        let (writes, finalizers, driver) = settled(provisioned(name, policy, &before));
        assert_eq!(
            (finalizers.clone(), driver),
            (after, Value::Null),
            "{policy}"
        );
        assert_eq!(writes.is_empty(), json!(before) == finalizers);
    }
}

#[test]
fn volumes_of_others_are_left_alone() {
    for by in ["example.com/csi", ""] {
        let (writes, ..) = settled(provisioned(by, "Delete", &[IN_TREE, EXTERNAL]));
        assert!(writes.is_empty());
    }
}

#[test]
fn a_volume_that_is_being_deleted_gets_no_finalizer() {
    let disk = deleting(provisioned("kubernetes.io/host-path", "Delete", &["a"]));
    assert!(settled(disk).0.is_empty());
}

#[test]
fn the_driver_is_removed_if_nothing_is_migrated() {
    let disk = annotated(
        provisioned("example.com/csi", "Delete", &[]),
        MIGRATED_TO,
        "example.com",
    );
    let (writes, _, driver) = settled(disk);
    assert_eq!((writes.len(), driver), (1, Value::Null));
}

#[test]
fn a_claim_is_annotated_with_the_driver_of_its_provisioner() {
    for key in [
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
    ] {
        let [disk, data] = pair();
        let cluster = Cluster::with([disk, annotated(data, key, "kubernetes.io/cinder")]);
        assert_eq!(
            sync_claim(&cluster, "data"),
            ["update v1/PersistentVolumeClaim team/data"]
        );
        let annotations = &claim_of(&cluster, "data")["metadata"]["annotations"];
        assert_eq!(annotations[MIGRATED_TO], "cinder.csi.openstack.org");
        assert!(sync_claim(&cluster, "data").is_empty());
    }
}

#[test]
fn a_migrated_volume_is_not_reclaimed() {
    let disk = annotated(
        released(volume("disk", "1Gi"), "Delete"),
        MIGRATED_TO,
        "pd.csi.storage.gke.io",
    );
    let disk = annotated(disk, PROVISIONED_BY, "kubernetes.io/gce-pd");
    let cluster = mocked([disk]);
    assert_eq!(
        sync_volume(&cluster, "disk"),
        ["update v1/PersistentVolume/status disk"]
    );
    assert!(cluster.object(PV, "", "disk").is_some());
}
