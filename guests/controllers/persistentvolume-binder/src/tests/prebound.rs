//! Volumes that are reserved for a claim, and claims that name a volume.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

#[test]
fn a_reserved_volume_keeps_no_trace_of_the_controller() {
    let disk = with(volume("disk", "2Gi"), "/spec/claimRef", reservation("data"));
    let cluster = Cluster::with([disk, volume("small", "1Gi"), claim("data", "1Gi")]);
    sync_claim(&cluster, "data");
    let disk = volume_of(&cluster, "disk");
    assert_eq!(disk["spec"]["claimRef"]["uid"], "uid-data");
    assert!(disk["metadata"]["annotations"].is_null());
    let annotations = &claim_of(&cluster, "data")["metadata"]["annotations"];
    assert_eq!(
        *annotations,
        json!({BY_CONTROLLER: "yes", COMPLETED: "yes"})
    );
}

#[test]
fn a_claim_that_names_a_volume_keeps_no_trace_of_the_controller() {
    let data = with(claim("data", "1Gi"), "/spec/volumeName", "disk");
    let cluster = Cluster::with([volume("disk", "2Gi"), data]);
    assert_eq!(sync_claim(&cluster, "data").len(), 4);
    let annotations = &claim_of(&cluster, "data")["metadata"]["annotations"];
    assert_eq!(*annotations, json!({COMPLETED: "yes"}));
    let annotations = &volume_of(&cluster, "disk")["metadata"]["annotations"];
    assert_eq!(*annotations, json!({BY_CONTROLLER: "yes"}));
}

#[test]
fn both_sides_may_name_each_other() {
    let disk = with(volume("disk", "2Gi"), "/spec/claimRef", reservation("data"));
    let data = with(claim("data", "1Gi"), "/spec/volumeName", "disk");
    let cluster = Cluster::with([disk, data]);
    assert_eq!(sync_claim(&cluster, "data").len(), 4);
    assert!(volume_of(&cluster, "disk")["metadata"]["annotations"].is_null());
}

#[test]
fn a_missing_volume_is_waited_for_in_silence() {
    let data = with(claim("data", "1Gi"), "/spec/volumeName", "disk");
    let cluster = Cluster::with([data]);
    assert!(sync_claim(&cluster, "data").is_empty() && cluster.events().is_empty());
    cluster.put(volume("disk", "1Gi"));
    assert_eq!(sync_claim(&cluster, "data").len(), 4);
}

#[test]
fn an_unfit_volume_is_reported() {
    let data = with(claim("data", "3Gi"), "/spec/volumeName", "disk");
    let cluster = Cluster::with([volume("disk", "2Gi"), data]);
    assert!(sync_claim(&cluster, "data").is_empty());
    let event = "Warning VolumeMismatch Cannot bind to requested volume \"disk\": requested PV is too small";
    assert_eq!(cluster.events(), [event]);
}

#[test]
fn a_volume_of_another_claim_is_reported() {
    let data = with(claim("data", "1Gi"), "/spec/volumeName", "disk");
    let disk = bound_to(volume("disk", "2Gi"), "other");
    let cluster = Cluster::with([disk.clone(), data.clone()]);
    let event = "Warning FailedBinding volume \"disk\" already bound to a different claim.";
    assert!(sync_claim(&cluster, "data").is_empty());
    assert_eq!(cluster.events(), [event]);
    // The controller has not written this name without the annotation that the claim lacks.
    let cluster = Cluster::with([disk, annotated(data, BY_CONTROLLER, "yes")]);
    try_claim(&cluster, "data").unwrap_err();
    assert_eq!(cluster.events(), [event]);
}

#[test]
fn a_reservation_for_an_earlier_claim_of_the_name_is_none() {
    let mut named = reservation("data");
    named["uid"] = "uid-earlier".into();
    let disk = with(volume("disk", "2Gi"), "/spec/claimRef", named);
    let cluster = Cluster::with([disk, claim("data", "1Gi")]);
    assert!(sync_claim(&cluster, "data").is_empty());
}
