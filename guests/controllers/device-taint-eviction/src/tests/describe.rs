//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::permissions;

use super::world::cluster;
use crate::DeviceTaintEviction;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = DeviceTaintEviction::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("device-taint-eviction-controller", 8)
    );
    assert_eq!(description.event_source, "");
    assert_eq!(
        description.queues[0].name,
        "device-taint-eviction-controller"
    );
    let names: Vec<&str> = description
        .metrics
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "device_taint_eviction_controller_pod_deletions_total",
            "device_taint_eviction_controller_pod_deletion_duration_seconds"
        ]
    );
}

#[test]
fn rules_are_watched_only_with_their_feature_gate() {
    let cluster = cluster([]);
    let described = || DeviceTaintEviction::describe_configured(&cluster.host());
    cluster.set_config("feature-gates.DRADeviceTaintRules", "false");
    let without = described();
    assert_eq!(
        permissions(&without),
        ["v1/Pod  delete,get", "v1/Pod status patch"]
    );
    cluster.set_config("feature-gates.DRADeviceTaintRules", "true");
    let with = described();
    with.check().unwrap();
    assert_eq!(with.watches.len(), without.watches.len() + 1);
    assert_eq!(
        permissions(&with)[2],
        "resource.k8s.io/v1/DeviceTaintRule status patch"
    );
    cluster.set_config("emulated-version", "1.36");
    assert_eq!(
        permissions(&described())[2],
        "resource.k8s.io/v1beta2/DeviceTaintRule status patch"
    );
}

#[test]
fn a_pod_without_claims_enqueues_nothing() {
    let description = serde_json::to_value(DeviceTaintEviction::describe()).unwrap();
    let map = description["watches"][0]["map"].as_array().unwrap().clone();
    let paths: Vec<&Value> = map.iter().map(|mapping| &mapping["path"]).collect();
    assert_eq!(
        paths,
        [
            "spec.resourceClaims[*].resourceClaimName",
            "status.resourceClaimStatuses[*].resourceClaimName",
            "status.extendedResourceClaimStatus.resourceClaimName"
        ]
    );
}
