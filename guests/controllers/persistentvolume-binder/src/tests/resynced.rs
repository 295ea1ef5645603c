//! Which claims and volumes are reconciled again in each period.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::Binder;

/// The keys that are enqueued in a cluster.
fn due(objects: impl IntoIterator<Item = Value>) -> Vec<String> {
    let cluster = Cluster::with(objects);
    cluster
        .reconcile_request::<Binder>(&request("volumes", "resync:"))
        .unwrap();
    let keys = cluster.enqueued().into_iter();
    keys.map(|enqueued| format!("{} {}", enqueued.queue, enqueued.key))
        .collect()
}

const CLAIM: &str = "claims team/data";
const VOLUME: &str = "volumes disk";

#[test]
fn what_is_settled_is_left_out() {
    assert!(due(pair()).is_empty());
    assert!(due([volume("disk", "1Gi")]).is_empty());
    assert!(
        due([with(
            volume("disk", "1Gi"),
            "/spec/claimRef",
            reservation("data")
        )])
        .is_empty()
    );
    let retained = with(
        released(volume("disk", "1Gi"), "Retain"),
        "/status/phase",
        "Released",
    );
    assert!(due([retained]).is_empty());
}

#[test]
fn waiting_and_lost_claims_are_due() {
    assert_eq!(due([claim("data", "1Gi")]), [CLAIM]);
    let lost = with(
        bound_claim("data", "disk"),
        "/status",
        json!({"phase": "Lost"}),
    );
    assert_eq!(due([lost]), [CLAIM]);
}

#[test]
fn a_claim_whose_volume_has_changed_is_due() {
    let [disk, data] = pair();
    assert_eq!(due([data.clone()]), [CLAIM]);
    let moved = bound_to(disk.clone(), "other");
    assert_eq!(due([moved, data.clone()]), [CLAIM, VOLUME]);
    let modes = with(
        disk.clone(),
        "/spec/accessModes",
        json!(["ReadWriteOnce", "ReadOnlyMany"]),
    );
    assert_eq!(due([modes, data.clone()]), [CLAIM]);
    assert_eq!(due([volume("disk", "2Gi"), data.clone()]), [CLAIM]);
    let incomplete = with(data, "/metadata/annotations", json!({}));
    assert_eq!(due([disk, incomplete]), [CLAIM]);
}

#[test]
fn volumes_that_wait_for_something_are_due() {
    let [disk, _] = pair();
    let waiting = with(claim("data", "1Gi"), "/spec/volumeName", "disk");
    assert_eq!(
        due([with(disk.clone(), "/status/phase", "Available"), waiting]),
        [CLAIM, VOLUME]
    );
    assert_eq!(
        due([with(volume("disk", "1Gi"), "/status/phase", "Pending")]),
        [VOLUME]
    );
    for policy in ["Delete", "Recycle"] {
        let released = with(
            released(volume("disk", "1Gi"), policy),
            "/status/phase",
            "Failed",
        );
        assert_eq!(due([released]), [VOLUME]);
    }
    assert_eq!(due([released(volume("disk", "1Gi"), "Retain")]), [VOLUME]);
    // Its claim has another volume.
    let other = bound_claim("data", "other");
    assert_eq!(due([disk, other]), [CLAIM, VOLUME]);
}

#[test]
fn what_an_in_tree_plugin_provisioned_is_due_because_it_may_be_migrated() {
    let [disk, data] = pair();
    let provisioned = annotated(disk.clone(), PROVISIONED_BY, "kubernetes.io/gce-pd");
    assert_eq!(due([provisioned, data.clone()]), [VOLUME]);
    let key = "volume.beta.kubernetes.io/storage-provisioner";
    assert_eq!(
        due([
            disk.clone(),
            annotated(data.clone(), key, "kubernetes.io/gce-pd")
        ]),
        [CLAIM]
    );
    let external = annotated(disk, PROVISIONED_BY, "example.com/csi");
    assert!(due([external, annotated(data, key, "example.com/csi")]).is_empty());
}
