//! Volumes whose policy is to delete them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};
use std::time::Duration;

use super::world::*;

const FINALIZER: &str = "kubernetes.io/pv-controller";
const RELEASED: &str = "update v1/PersistentVolume/status disk";
const DELETED: &str = "delete v1/PersistentVolume disk";

fn disk() -> Value {
    released(volume("disk", "1Gi"), "Delete")
}

/// A volume that the mock has provisioned.
fn provisioned() -> Value {
    let disk = annotated(disk(), PROVISIONED_BY, MOCK);
    with(
        disk,
        "/metadata/finalizers",
        json!([FINALIZER, "example.com/held"]),
    )
}

#[test]
fn the_storage_goes_before_the_finalizer_and_the_object() {
    let cluster = mocked([provisioned()]);
    let writes = sync_volume(&cluster, "disk");
    assert_eq!(
        writes,
        [RELEASED, "update v1/PersistentVolume disk", DELETED]
    );
    let left = volume_of(&cluster, "disk");
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/held"]));
    // The finalizer is not added again, and the object is not deleted again.
    assert!(sync_volume(&cluster, "disk").is_empty());
}

#[test]
fn the_object_is_deleted_in_the_version_that_was_released() {
    let cluster = mocked([disk()]);
    try_volume(&cluster, "disk").unwrap();
    let delete = cluster.writes().pop().unwrap();
    assert_eq!(delete.options["preconditions"]["uid"], "uid-disk");
    assert!(delete.options["preconditions"]["resourceVersion"].is_string());
    assert!(cluster.object(PV, "", "disk").is_none());
}

#[test]
fn each_interrupted_deletion_is_finished() {
    for (verb, kind) in [
        ("update", "v1/PersistentVolume/status"),
        ("update", PV),
        ("delete", PV),
    ] {
        let provisioned = with(provisioned(), "/metadata/finalizers", json!([FINALIZER]));
        let cluster = mocked([provisioned]);
        cluster.fail(verb, kind, refusal(500, "InternalError"));
        try_volume(&cluster, "disk").unwrap_err();
        sync_volume(&cluster, "disk");
        assert!(cluster.object(PV, "", "disk").is_none(), "{verb} {kind}");
    }
}

#[test]
fn a_volume_that_got_a_claim_meanwhile_is_kept() {
    let cluster = mocked([with(disk(), "/status/phase", "Released")]);
    // The user has given it to a claim, which the cache does not have either.
    let given = bound_to(volume("disk", "1Gi"), "data");
    cluster.put_live(with(given, "/spec/persistentVolumeReclaimPolicy", "Delete"));
    cluster.put_live(claim("data", "1Gi"));
    assert!(sync_volume(&cluster, "disk").is_empty());
    // The user has taken its claim away, or wants to keep it.
    for kept in [
        volume("disk", "1Gi"),
        released(volume("disk", "1Gi"), "Retain"),
    ] {
        cluster.put_live(kept);
        assert!(sync_volume(&cluster, "disk").is_empty());
    }
}

#[test]
fn the_surplus_volume_of_a_claim_is_deleted_if_it_was_provisioned() {
    let surplus = annotated(
        bound_to(volume("surplus", "2Gi"), "data"),
        PROVISIONED_BY,
        MOCK,
    );
    let surplus = with(surplus, "/spec/persistentVolumeReclaimPolicy", "Delete");
    let [disk, data] = pair();
    let cluster = mocked([disk, data, surplus]);
    sync_volume(&cluster, "surplus");
    assert!(cluster.object(PV, "", "surplus").is_none());
}

#[test]
fn host_paths_outside_of_tmp_are_failures() {
    let disk = with(disk(), "/spec/hostPath/path", "/var/disk");
    let cluster = Cluster::with([disk]);
    assert_eq!(sync_volume(&cluster, "disk"), [RELEASED, RELEASED]);
    let problem = "host_path deleter only supports /tmp/.+ but received provided /var/disk";
    let status = json!({"phase": "Failed", "message": problem});
    assert_eq!(volume_of(&cluster, "disk")["status"], status);
    assert_eq!(
        cluster.events(),
        [format!("Warning VolumeFailedDelete {problem}")]
    );
}

#[test]
fn a_failed_deletion_is_repeated_after_a_backoff_and_reported_once() {
    let cluster = Cluster::with([with(disk(), "/spec/hostPath/path", "/var/disk")]);
    sync_volume(&cluster, "disk");
    cluster.live_reads();
    sync_volume(&cluster, "disk");
    assert!(cluster.live_reads().is_empty());
    cluster.advance(Duration::from_secs(15));
    assert!(sync_volume(&cluster, "disk").is_empty());
    assert!(!cluster.live_reads().is_empty());
    assert_eq!(cluster.events().len(), 1);
    // The user corrects the object.
    cluster.edit(PV, "", "disk", |disk| {
        disk["spec"]["hostPath"]["path"] = "/tmp/disk".into()
    });
    cluster.advance(Duration::from_secs(15));
    assert_eq!(sync_volume(&cluster, "disk"), [DELETED]);
}

/// The event about a volume with this source that can't be deleted.
fn refused(source: Value, provisioned_by: Option<&str>) -> String {
    let mut disk = disk();
    disk["spec"].as_object_mut().unwrap().remove("hostPath");
    disk["spec"]
        .as_object_mut()
        .unwrap()
        .extend(source.as_object().unwrap().clone());
    if let Some(name) = provisioned_by {
        disk = annotated(disk, PROVISIONED_BY, name);
    }
    let cluster = Cluster::with([disk]);
    sync_volume(&cluster, "disk");
    assert_eq!(volume_phase(&cluster, "disk"), "Failed");
    cluster.events().pop().unwrap()
}

#[test]
fn a_volume_without_a_plugin_is_a_failure() {
    let without =
        "Warning VolumeFailedDelete error getting deleter volume plugin for volume \"disk\":";
    let nfs = json!({"nfs": {"server": "nfs", "path": "/"}});
    assert_eq!(
        refused(nfs.clone(), None),
        format!("{without} no deletable volume plugin matched")
    );
    // The plugins that only attach volumes don't exist for this controller.
    let iscsi = json!({"iscsi": {"targetPortal": "a", "iqn": "b", "lun": 0}});
    assert_eq!(
        refused(iscsi, None),
        format!("{without} no volume plugin matched")
    );
    assert_eq!(
        refused(nfs, Some("kubernetes.io/lost")),
        "Warning VolumeFailedDelete no volume plugin matched name: kubernetes.io/lost"
    );
}

#[test]
fn external_provisioners_delete_their_own_volumes() {
    let mut csi = disk();
    csi["spec"].as_object_mut().unwrap().remove("hostPath");
    let csi = with(
        csi,
        "/spec/csi",
        json!({"driver": "example.com", "volumeHandle": "1"}),
    );
    for disk in [csi, annotated(disk(), PROVISIONED_BY, "example.com/csi")] {
        let cluster = Cluster::with([disk]);
        assert_eq!(sync_volume(&cluster, "disk"), [RELEASED]);
        assert_eq!(volume_phase(&cluster, "disk"), "Released");
        assert!(sync_volume(&cluster, "disk").is_empty() && cluster.events().is_empty());
    }
}
