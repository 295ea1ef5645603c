//! The empty slice of a Service without endpoints.

use flyball_sdk::prelude::*;

use super::world::*;

#[test]
fn a_service_without_pods_has_one_empty_slice() {
    let cluster = cluster([service(json!({}))]);
    assert_eq!(reconcile(&cluster), ["create"]);
    let slice = &slices(&cluster)[0];
    assert!(slice["endpoints"].is_null() && slice["ports"].is_null());
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn the_first_pod_takes_the_empty_slice_and_the_last_one_leaves_it() {
    let cluster = cluster([service(json!({}))]);
    reconcile(&cluster);
    cluster.put(pod("web-1", "10.0.0.1"));
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(slices(&cluster)[0]["ports"][0]["port"], 8080);
    cluster.remove("v1/Pod", "a", "web-1");
    assert_eq!(reconcile(&cluster), ["update"]);
    let slice = &slices(&cluster)[0];
    assert!(slice["endpoints"].is_null() && slice["ports"].is_null());
}

#[test]
fn changed_labels_reach_the_empty_slice() {
    let cluster = cluster([service(json!({}))]);
    reconcile(&cluster);
    edit_service(&cluster, |service| {
        service["metadata"]["labels"] = json!({"tier": "front"})
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(slices(&cluster)[0]["metadata"]["labels"]["tier"], "front");
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn of_several_empty_slices_one_stays() {
    let cluster = cluster([service(json!({}))]);
    reconcile(&cluster);
    let mut copy = slices(&cluster)[0].clone();
    copy["metadata"]["name"] = "web-copy".into();
    copy["metadata"]["uid"] = "copy".into();
    cluster.put(copy);
    assert_eq!(reconcile(&cluster), ["update", "delete"]);
    assert_eq!(slices(&cluster).len(), 1);
}

#[test]
fn a_headless_service_without_ports_keeps_its_empty_slice() {
    let headless = json!({"clusterIP": "None", "ports": null, "ipFamilies": ["IPv4", "IPv6"]});
    let cluster = cluster([service(headless), pod("web-1", "10.0.0.1")]);
    // The pod has no IPv6 address.
    assert_eq!(reconcile(&cluster), ["create", "create"]);
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn a_service_that_is_being_deleted_gets_no_new_slice() {
    let cluster = cluster([service(json!({}))]);
    edit_service(&cluster, |service| {
        service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    assert!(reconcile(&cluster).is_empty());
}
