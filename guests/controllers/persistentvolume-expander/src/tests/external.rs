//! Volumes that drivers expand.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

const MIGRATED: &str = "Normal ExternalExpanding CSI migration enabled for kubernetes.io/aws-ebs; waiting for external \
                        resizer to expand the pvc";
const PATCH: &str = "patch v1/PersistentVolumeClaim/status team/data";

fn ebs(capacity: &str) -> Value {
    volume(
        capacity,
        "awsElasticBlockStore",
        json!({"volumeID": "vol-1"}),
    )
}

fn csi(capacity: &str) -> Value {
    volume(
        capacity,
        "csi",
        json!({"driver": "csi.example.com", "volumeHandle": "1"}),
    )
}

#[test]
fn a_claim_of_a_migrated_kind_is_annotated_with_the_driver() {
    let cluster = Cluster::with([claim("2Gi", "1Gi"), ebs("1Gi")]);
    let version = claim_of(&cluster)["metadata"]["resourceVersion"].clone();
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.events(), [MIGRATED]);
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), PATCH);
    assert_eq!(
        writes[0].body,
        json!({"metadata": {"resourceVersion": version,
                            "annotations": {"volume.kubernetes.io/storage-resizer": "ebs.csi.aws.com"}}})
    );
    assert_eq!(
        claim_of(&cluster)["metadata"]["annotations"]["volume.kubernetes.io/storage-resizer"],
        "ebs.csi.aws.com"
    );
}

#[test]
fn an_annotated_claim_is_not_written_again_and_another_driver_is_replaced() {
    let annotated = |driver: &str| {
        let annotations = json!({"volume.kubernetes.io/storage-resizer": driver});
        with(claim("2Gi", "1Gi"), "/metadata/annotations", annotations)
    };
    let cluster = Cluster::with([annotated("ebs.csi.aws.com"), ebs("1Gi")]);
    assert_eq!(sync(&cluster), (vec![MIGRATED.to_owned()], vec![]));
    let cluster = Cluster::with([annotated("other"), ebs("1Gi")]);
    assert_eq!(sync(&cluster).1, [PATCH]);
}

#[test]
fn a_refused_annotation_is_reported_and_retried() {
    let cluster = Cluster::with([claim("2Gi", "1Gi"), ebs("1Gi")]);
    cluster.fail(
        "patch",
        &format!("{CLAIM}/status"),
        refusal(409, "Conflict"),
    );
    assert!(!reconcile(&cluster).unwrap_err().is_terminal());
    assert_eq!(
        cluster.events(),
        [
            MIGRATED,
            "Warning ExternalExpanding error setting resizer annotation to pvc team/data, with error patchPVCStatus \
             failed to patch PVC \"data\": the test refuses this: Conflict"
        ]
    );
}

#[test]
fn a_claim_of_any_other_kind_waits_for_an_external_controller() {
    let nfs = volume("1Gi", "nfs", json!({"server": "a", "path": "/"}));
    let host_path = volume("1Gi", "hostPath", json!({"path": "/data"}));
    for volume in [csi("1Gi"), nfs, host_path] {
        let cluster = Cluster::with([claim("2Gi", "1Gi"), volume]);
        let waiting =
            "Normal ExternalExpanding waiting for an external controller to expand this PVC";
        assert_eq!(sync(&cluster), (vec![waiting.to_owned()], vec![]));
    }
}

#[test]
fn a_claim_with_its_size_needs_no_request() {
    for request in ["1Gi", "512Mi"] {
        let cluster = Cluster::with([claim(request, "1Gi"), ebs("1Gi")]);
        assert_eq!(sync(&cluster), (vec![], vec![]));
        assert!(cluster.live_reads().is_empty());
    }
}

#[test]
fn a_claim_with_its_size_is_announced_while_a_node_expands_its_volume() {
    let cluster = Cluster::with([claim("2Gi", "2Gi"), resizing(csi("2Gi"), "1Gi")]);
    assert_eq!(sync(&cluster).0.len(), 1);
    // The cache is behind.
    let cluster = Cluster::with([claim("2Gi", "2Gi"), resizing(csi("2Gi"), "1Gi")]);
    cluster.put_live(csi("2Gi"));
    assert_eq!(sync(&cluster).0.len(), 0);
}

#[test]
fn the_volume_is_read_from_the_server_and_must_be_bound_to_the_claim() {
    let cluster = Cluster::with([claim("2Gi", "1Gi")]);
    cluster.put_live(ebs("1Gi"));
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.live_reads(), ["get v1/PersistentVolume pv-1"]);
    let mut unbound = ebs("1Gi");
    unbound["spec"]["claimRef"] = Value::Null;
    for other in [
        unbound,
        with(ebs("1Gi"), "/spec/claimRef/uid", "another"),
        with(ebs("1Gi"), "/spec/claimRef/namespace", "another"),
    ] {
        let cluster = Cluster::with([claim("2Gi", "1Gi"), other]);
        assert!(!reconcile(&cluster).unwrap_err().is_terminal());
        assert!(cluster.events().is_empty() && cluster.written().is_empty());
    }
}

#[test]
fn a_claim_whose_volume_is_missing_is_retried_and_a_deleted_claim_is_not() {
    let cluster = Cluster::with([claim("1Gi", "1Gi")]);
    assert!(!reconcile(&cluster).unwrap_err().is_terminal());
    let cluster = Cluster::with([with(claim("2Gi", "1Gi"), "/spec/volumeName", "")]);
    assert!(!reconcile(&cluster).unwrap_err().is_terminal());
    assert!(cluster.live_reads().is_empty());
    assert_eq!(reconcile(&Cluster::new()).unwrap(), Outcome::Done);
}
