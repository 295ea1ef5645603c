//! Claims whose volumes external provisioners create.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

const UPDATE: &str = "update v1/PersistentVolumeClaim team/data";

fn data() -> Value {
    in_class(claim("data", "1Gi"), "fast")
}

fn waiting(provisioner: &str) -> String {
    format!(
        "Normal ExternalProvisioning Waiting for a volume to be created either by the external provisioner '{provisioner}' \
         or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is \
         running and correctly registered."
    )
}

#[test]
fn the_provisioner_is_asked_by_annotations() {
    let cluster = Cluster::with([class("fast", "example.com/csi"), data()]);
    assert_eq!(sync_claim(&cluster, "data"), [UPDATE]);
    let annotations = &claim_of(&cluster, "data")["metadata"]["annotations"];
    let expected = json!({"volume.kubernetes.io/storage-provisioner": "example.com/csi",
                          "volume.beta.kubernetes.io/storage-provisioner": "example.com/csi"});
    assert_eq!(*annotations, expected);
    assert_eq!(cluster.events(), [waiting("example.com/csi")]);
    // It is reported again in each period, although nothing is written.
    assert!(sync_claim(&cluster, "data").is_empty());
    assert_eq!(cluster.events(), [waiting("example.com/csi")]);
}

#[test]
fn a_migrated_provisioner_is_asked_by_the_name_of_its_driver() {
    let cluster = Cluster::with([class("fast", "kubernetes.io/gce-pd"), data()]);
    sync_claim(&cluster, "data");
    assert_eq!(cluster.events(), [waiting("pd.csi.storage.gke.io")]);
    let annotations = &claim_of(&cluster, "data")["metadata"]["annotations"];
    assert_eq!(
        annotations["volume.kubernetes.io/storage-provisioner"],
        "pd.csi.storage.gke.io"
    );
    assert!(annotations[MIGRATED_TO].is_null());
}

#[test]
fn the_volume_of_the_provisioner_is_bound() {
    let cluster = Cluster::with([class("fast", "example.com/csi"), data()]);
    sync_claim(&cluster, "data");
    let disk = annotated(
        in_class(volume("disk", "1Gi"), "fast"),
        PROVISIONED_BY,
        "example.com/csi",
    );
    let disk = with(disk, "/spec/claimRef", reference("data"));
    cluster.put(with(disk, "/status/phase", "Pending"));
    sync_volume(&cluster, "disk");
    assert_eq!(cluster.enqueued()[0].key, "team/data");
    assert_eq!(
        sync_claim(&cluster, "data"),
        [
            "update v1/PersistentVolume/status disk",
            UPDATE,
            "update v1/PersistentVolumeClaim/status team/data"
        ]
    );
    assert!(cluster.live_reads().is_empty());
    assert!(volume_of(&cluster, "disk")["metadata"]["annotations"][BY_CONTROLLER].is_null());
}

#[test]
fn a_claim_that_can_not_be_saved_is_reported() {
    let cluster = Cluster::with([class("fast", "example.com/csi"), data()]);
    cluster.fail("update", PVC, refusal(409, "Conflict"));
    try_claim(&cluster, "data").unwrap_err();
    let event = "Warning ProvisioningFailed Error saving claim: the test refuses this: Conflict";
    assert_eq!(cluster.events(), [event]);
}

#[test]
fn a_missing_class_and_a_missing_plugin_are_reported_and_the_phase_is_left_alone() {
    for (class_object, expected) in [
        (
            class("other", "a"),
            "storageclass.storage.k8s.io \"fast\" not found",
        ),
        (
            class("fast", "kubernetes.io/no-provisioner"),
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        (
            class("fast", "kubernetes.io/nfs"),
            "no provisionable volume plugin matched",
        ),
        (
            class("fast", "kubernetes.io/iscsi"),
            "no volume plugin matched name: kubernetes.io/iscsi",
        ),
    ] {
        let data = with(data(), "/status", json!({}));
        let cluster = Cluster::with([class_object, data]);
        assert!(sync_claim(&cluster, "data").is_empty());
        assert_eq!(
            cluster.events(),
            [format!("Warning ProvisioningFailed {expected}")]
        );
    }
}

#[test]
fn nothing_is_provisioned_if_the_operator_says_so() {
    let cluster = Cluster::with([class("fast", "example.com/csi"), data()]);
    cluster.set_config("enable-dynamic-provisioning", "false");
    assert!(sync_claim(&cluster, "data").is_empty() && cluster.events().is_empty());
}
