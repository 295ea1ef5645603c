//! Failed writes, and pods of unknown nodes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

const SLICE: &str = "discovery.k8s.io/v1/EndpointSlice";

#[test]
fn a_pod_on_an_unknown_node_is_left_out_and_tried_again() {
    let cluster = cluster([
        service(json!({})),
        pod("web-1", "10.0.0.1"),
        pod("web-2", "10.0.0.2"),
    ]);
    edit_pod(&cluster, "web-2", |pod| {
        pod["spec"]["nodeName"] = "unknown".into()
    });
    let error = try_reconcile(&cluster).unwrap_err();
    assert!(!error.is_terminal());
    assert_eq!(members(&cluster), [["web-1"]]);
    assert_eq!(
        cluster.events(),
        [
            "Warning FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service a/web: skipping Pod web-2 \
          for Service a/web: Node unknown Not Found"
        ]
    );
}

#[test]
fn a_pod_on_an_unknown_node_counts_if_unready_pods_are_published() {
    let publish = json!({"publishNotReadyAddresses": true});
    let cluster = cluster([service(publish), pod("web-1", "10.0.0.1")]);
    edit_pod(&cluster, "web-1", |pod| {
        pod["spec"]["nodeName"] = "unknown".into()
    });
    reconcile(&cluster);
    assert_eq!(members(&cluster), [["web-1"]]);
}

#[test]
fn only_pods_on_unknown_nodes_leave_an_empty_slice() {
    let cluster = cluster([service(json!({})), pod("web-1", "10.0.0.1")]);
    reconcile(&cluster);
    cluster.remove("v1/Node", "", "node");
    try_reconcile(&cluster).unwrap_err();
    assert_eq!(sizes(&cluster), [0]);
    assert!(slices(&cluster)[0]["ports"].is_null());
}

#[test]
fn a_failed_write_is_an_event_and_stops_the_others() {
    let cluster = cluster([service(json!({})), pod("web-1", "10.0.0.1")]);
    cluster.fail("create", SLICE, refusal(403, "Forbidden"));
    try_reconcile(&cluster).unwrap_err();
    let events = cluster.events();
    assert_eq!(events.len(), 1);
    assert!(
        events[0].starts_with("Warning FailedToUpdateEndpointSlices"),
        "{events:?}"
    );
    assert!(
        events[0].contains("failed to create EndpointSlice for Service a/web"),
        "{events:?}"
    );
}

#[test]
fn a_namespace_that_is_being_deleted_is_no_failure() {
    let cluster = cluster([service(json!({})), pod("web-1", "10.0.0.1")]);
    cluster.fail("create", SLICE, refusal(403, "NamespaceTerminating"));
    try_reconcile(&cluster).unwrap();
    assert!(cluster.events().is_empty());
}

#[test]
fn the_other_family_is_attempted_after_a_failure() {
    let both = json!({"ipFamilies": ["IPv4", "IPv6"]});
    let cluster = cluster([service(both), pod("web-1", "10.0.0.1")]);
    cluster.fail("create", SLICE, refusal(500, "InternalError"));
    try_reconcile(&cluster).unwrap_err();
    assert_eq!(slices(&cluster)[0]["addressType"], "IPv6");
}

#[test]
fn invalid_settings_are_not_tried_again() {
    for (key, value) in [
        ("max-endpoints-per-slice", "0"),
        ("updates-batch-period", "soon"),
    ] {
        let cluster = cluster([service(json!({}))]);
        cluster.set_config(key, value);
        assert!(try_reconcile(&cluster).unwrap_err().is_terminal());
        assert!(cluster.writes().is_empty());
    }
}
