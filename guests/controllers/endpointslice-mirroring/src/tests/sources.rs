//! The Endpoints that are mirrored.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

/// A cluster whose Endpoints are mirrored already.
fn mirrored_before() -> Cluster {
    let cluster = cluster(json!([
        subset(&["192.0.2.1"], 80),
        subset(&["192.0.2.2"], 81)
    ]));
    assert_eq!(reconcile(&cluster).len(), 2);
    cluster
}

fn assert_cleaned_up(cluster: &Cluster) {
    assert_eq!(reconcile(cluster), ["delete", "delete"]);
    assert!(reconcile(cluster).is_empty());
}

#[test]
fn a_service_with_a_selector_is_not_mirrored() {
    let cluster = mirrored_before();
    cluster.put(service(json!({"app": "web"})));
    assert_cleaned_up(&cluster);
}

#[test]
fn endpoints_without_a_service_are_not_mirrored() {
    let cluster = mirrored_before();
    cluster.remove("v1/Service", "a", "web");
    assert_cleaned_up(&cluster);
}

#[test]
fn the_slices_of_deleted_endpoints_are_deleted() {
    let cluster = mirrored_before();
    cluster.remove("v1/Endpoints", "a", "web");
    assert_cleaned_up(&cluster);
}

#[test]
fn a_label_prevents_mirroring() {
    let cluster = mirrored_before();
    let label = |value: &str| {
        edit(&cluster, |endpoints| {
            endpoints["metadata"]["labels"] =
                json!({"endpointslice.kubernetes.io/skip-mirror": value});
        });
    };
    label("false");
    assert_eq!(reconcile(&cluster), ["update", "update"]);
    label("true");
    assert_cleaned_up(&cluster);
}

#[test]
fn the_lock_of_a_leader_election_is_not_mirrored() {
    let cluster = mirrored_before();
    edit(&cluster, |endpoints| {
        endpoints["metadata"]["annotations"] =
            json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    });
    assert_cleaned_up(&cluster);
}

#[test]
fn slices_of_others_are_left_alone() {
    let cluster = mirrored_before();
    for slice in slices(&cluster) {
        let name = slice["metadata"]["name"].as_str().unwrap().to_owned();
        cluster.edit(SLICE, "a", &name, |slice| {
            slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "me".into();
        });
    }
    cluster.remove("v1/Endpoints", "a", "web");
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn a_slice_that_is_being_deleted_is_not_deleted_again() {
    let cluster = mirrored_before();
    for slice in slices(&cluster) {
        let name = slice["metadata"]["name"].as_str().unwrap().to_owned();
        cluster.edit(SLICE, "a", &name, |slice| {
            slice["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        });
    }
    cluster.remove("v1/Endpoints", "a", "web");
    assert!(reconcile(&cluster).is_empty());
}
