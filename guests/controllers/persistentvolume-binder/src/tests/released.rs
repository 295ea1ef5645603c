//! The phases of volumes, and the reclaim policies that leave the storage alone.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

const STATUS: &str = "update v1/PersistentVolume/status disk";

#[test]
fn a_volume_without_a_claim_is_available() {
    let fresh = || {
        with(
            volume("disk", "1Gi"),
            "/status",
            json!({"phase": "Pending"}),
        )
    };
    for disk in [
        fresh(),
        with(fresh(), "/spec/claimRef", reservation("data")),
        with(fresh(), "/status", json!({})),
    ] {
        let cluster = Cluster::with([disk, claim("data", "1Gi")]);
        assert_eq!(sync_volume(&cluster, "disk"), [STATUS]);
        assert_eq!(volume_phase(&cluster, "disk"), "Available");
        assert!(cluster.enqueued().is_empty());
    }
}

#[test]
fn a_volume_wakes_a_claim_that_does_not_name_it_yet() {
    for disk in [
        bound_to(volume("disk", "1Gi"), "data"),
        with(volume("disk", "1Gi"), "/spec/claimRef", reference("data")),
    ] {
        let cluster = Cluster::with([disk, claim("data", "1Gi")]);
        assert!(sync_volume(&cluster, "disk").is_empty());
        let enqueued = cluster.enqueued();
        assert_eq!(
            (enqueued[0].queue.as_str(), enqueued[0].key.as_str()),
            ("claims", "team/data")
        );
    }
}

#[test]
fn different_modes_are_reported_on_both_sides() {
    let disk = with(
        bound_to(volume("disk", "1Gi"), "data"),
        "/spec/volumeMode",
        "Block",
    );
    let cluster = Cluster::with([disk, claim("data", "1Gi")]);
    assert!(sync_volume(&cluster, "disk").is_empty() && cluster.enqueued().is_empty());
    let events = cluster.recorded_events();
    let messages: Vec<_> = events
        .iter()
        .map(|event| (event.about.kind.as_str(), event.message.as_str()))
        .collect();
    assert_eq!(
        messages,
        [
            (
                PV,
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"data\" due to incompatible volumeMode."
            ),
            (
                PVC,
                "Cannot bind PersistentVolume \"disk\" to requested PersistentVolumeClaim due to incompatible volumeMode."
            ),
        ]
    );
}

#[test]
fn a_volume_of_a_deleted_claim_is_released_and_retained() {
    let cluster = Cluster::with([released(volume("disk", "1Gi"), "Retain")]);
    assert_eq!(sync_volume(&cluster, "disk"), [STATUS]);
    assert_eq!(volume_phase(&cluster, "disk"), "Released");
    assert_eq!(
        volume_of(&cluster, "disk")["spec"]["claimRef"]["uid"],
        "uid-gone"
    );
    assert_eq!(
        cluster.live_reads(),
        ["get v1/PersistentVolumeClaim team/gone"]
    );
    // Nothing can bring the claim back.
    assert!(sync_volume(&cluster, "disk").is_empty() && cluster.live_reads().is_empty());
}

#[test]
fn a_claim_that_the_cache_does_not_have_yet_keeps_its_volume() {
    let newer = with(claim("gone", "1Gi"), "/spec/volumeName", "disk");
    let cluster = Cluster::with([released(volume("disk", "1Gi"), "Retain")]);
    cluster.put_live(newer.clone());
    assert!(sync_volume(&cluster, "disk").is_empty());
    // The cache has an earlier claim of the same name.
    let cluster = Cluster::with([
        released(volume("disk", "1Gi"), "Retain"),
        with(claim("gone", "1Gi"), "/metadata/uid", "uid-earlier"),
    ]);
    cluster.put_live(newer);
    assert!(sync_volume(&cluster, "disk").is_empty());
}

#[test]
fn a_new_claim_of_the_name_does_not_keep_the_volume() {
    let other = with(claim("gone", "1Gi"), "/metadata/uid", "uid-newer");
    let cluster = Cluster::with([released(volume("disk", "1Gi"), "Retain"), other]);
    assert_eq!(sync_volume(&cluster, "disk"), [STATUS]);
}

#[test]
fn an_unknown_policy_is_a_failure() {
    let cluster = Cluster::with([released(volume("disk", "1Gi"), "Shred")]);
    assert_eq!(sync_volume(&cluster, "disk"), [STATUS, STATUS]);
    assert_eq!(volume_phase(&cluster, "disk"), "Failed");
    let event =
        "Warning VolumeUnknownReclaimPolicy Volume has unrecognized PersistentVolumeReclaimPolicy";
    assert_eq!(cluster.events(), [event]);
}

#[test]
fn a_bound_volume_in_another_phase_is_corrected() {
    let [disk, data] = pair();
    let cluster = Cluster::with([
        with(
            disk,
            "/status",
            json!({"phase": "Failed", "message": "no", "reason": "r"}),
        ),
        data,
    ]);
    assert_eq!(sync_volume(&cluster, "disk"), [STATUS]);
    assert_eq!(
        volume_of(&cluster, "disk")["status"],
        json!({"phase": "Bound", "reason": "r"})
    );
}
