//! Claims that were bound before.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

const STATUS: &str = "update v1/PersistentVolumeClaim/status team/data";

/// Checks that a claim is lost once, with this event.
fn assert_lost(cluster: &Cluster, event: &str) {
    assert_eq!(sync_claim(cluster, "data"), [STATUS]);
    assert_eq!(
        claim_of(cluster, "data")["status"],
        json!({"phase": "Lost"})
    );
    assert_eq!(cluster.events(), [event]);
    assert!(sync_claim(cluster, "data").is_empty() && cluster.events().is_empty());
}

#[test]
fn a_claim_without_its_volume_is_lost() {
    let cluster = Cluster::with([bound_claim("data", "disk")]);
    let event =
        "Warning ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_lost(&cluster, event);
}

#[test]
fn a_claim_that_no_longer_names_its_volume_is_lost() {
    let [disk, mut data] = pair();
    data["spec"].as_object_mut().unwrap().remove("volumeName");
    let cluster = Cluster::with([disk, data]);
    let event = "Warning ClaimLost Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
    assert_lost(&cluster, event);
}

#[test]
fn of_two_claims_of_a_volume_one_is_misbound() {
    let [disk, _] = pair();
    let wrong = with(bound_claim("data", "disk"), "/metadata/uid", "uid-wrong");
    let cluster = Cluster::with([disk, wrong]);
    let event = "Warning ClaimMisbound Two claims are bound to the same volume, this one is bound incorrectly";
    assert_lost(&cluster, event);
}

#[test]
fn a_reservation_for_the_claim_without_its_uid_is_misbound_too() {
    let disk = with(volume("disk", "2Gi"), "/spec/claimRef", reservation("data"));
    let cluster = Cluster::with([disk, bound_claim("data", "disk")]);
    sync_claim(&cluster, "data");
    assert_eq!(claim_phase(&cluster, "data"), "Lost");
}

#[test]
fn a_lost_claim_comes_back_with_its_volume() {
    let lost = with(
        bound_claim("data", "disk"),
        "/status",
        json!({"phase": "Lost"}),
    );
    // The volume was restored from a backup, with or without its reference.
    for disk in [
        volume("disk", "2Gi"),
        bound_to(volume("disk", "2Gi"), "data"),
    ] {
        let cluster = Cluster::with([lost.clone(), disk]);
        sync_claim(&cluster, "data");
        let status = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}});
        assert_eq!(claim_of(&cluster, "data")["status"], status);
        assert_eq!(volume_phase(&cluster, "disk"), "Bound");
    }
}

#[test]
fn a_volume_that_came_unbound_is_bound_again() {
    let [_, data] = pair();
    let cluster = Cluster::with([volume("disk", "2Gi"), data]);
    assert_eq!(
        sync_claim(&cluster, "data"),
        [
            "update v1/PersistentVolume disk",
            "update v1/PersistentVolume/status disk"
        ]
    );
    assert_eq!(
        volume_of(&cluster, "disk")["spec"]["claimRef"]["uid"],
        "uid-data"
    );
}
