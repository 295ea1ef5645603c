//! The packing of endpoints into slices, and the number of writes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

/// A cluster with a Service and this number of pods, with at most three endpoints in a slice, reconciled.
fn packed(count: usize) -> Cluster {
    let cluster = cluster([service(json!({}))]);
    cluster.set_config("max-endpoints-per-slice", "3");
    pods(count).for_each(|pod| cluster.put(pod));
    try_reconcile(&cluster).unwrap();
    cluster.writes();
    cluster
}

fn fail_pod(cluster: &Cluster, name: &str) {
    edit_pod(cluster, name, |pod| {
        pod["status"]["phase"] = "Failed".into()
    });
}

#[test]
fn slices_are_filled_one_after_another() {
    assert_eq!(sizes(&packed(3)), [3]);
    assert_eq!(sizes(&packed(4)), [3, 1]);
    assert_eq!(sizes(&packed(8)), [3, 3, 2]);
}

#[test]
fn one_more_endpoint_goes_into_a_slice_with_room() {
    let cluster = packed(5);
    cluster.put(pod("web-99", "10.0.9.9"));
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(sizes(&cluster), [3, 3]);
    cluster.put(pod("web-98", "10.0.9.8"));
    assert_eq!(reconcile(&cluster), ["create"]);
    assert_eq!(sizes(&cluster), [3, 3, 1]);
}

#[test]
fn a_slice_that_changes_anyway_is_filled_first() {
    let cluster = packed(5);
    // The first slice has web-00 to web-02.
    fail_pod(&cluster, "web-00");
    cluster.put(pod("web-99", "10.0.9.9"));
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(sizes(&cluster), [3, 2]);
}

#[test]
fn the_fullest_slice_that_has_enough_room_is_chosen() {
    let cluster = packed(6);
    fail_pod(&cluster, "web-00");
    fail_pod(&cluster, "web-03");
    fail_pod(&cluster, "web-04");
    assert_eq!(reconcile(&cluster), ["update", "update"]);
    assert_eq!(sizes(&cluster), [2, 1]);
    cluster.put(pod("web-99", "10.0.9.9"));
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(sizes(&cluster), [3, 1]);
}

#[test]
fn more_endpoints_than_any_slice_has_room_for_get_a_new_one() {
    let cluster = packed(2);
    cluster.put(pod("web-98", "10.0.9.8"));
    cluster.put(pod("web-99", "10.0.9.9"));
    assert_eq!(reconcile(&cluster), ["create"]);
    assert_eq!(sizes(&cluster), [2, 2]);
}

#[test]
fn a_full_load_gets_a_slice_of_its_own() {
    let cluster = packed(1);
    (7..10).for_each(|at| cluster.put(pod(&format!("new-{at}"), &format!("10.0.9.{at}"))));
    assert_eq!(reconcile(&cluster), ["create"]);
    assert_eq!(sizes(&cluster), [3, 1]);
}

#[test]
fn an_emptied_slice_is_reused_or_deleted() {
    let cluster = packed(4);
    fail_pod(&cluster, "web-03");
    assert_eq!(reconcile(&cluster), ["delete"]);
    let before = slices(&cluster)[0]["metadata"]["name"].clone();
    for name in ["web-00", "web-01", "web-02"] {
        fail_pod(&cluster, name);
    }
    cluster.put(pod("web-99", "10.0.9.9"));
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(members(&cluster), [["web-99"]]);
    assert_eq!(slices(&cluster)[0]["metadata"]["name"], before);
}

#[test]
fn a_changed_endpoint_is_updated_in_its_place() {
    let cluster = packed(5);
    edit_pod(&cluster, "web-01", |pod| {
        pod["status"]["conditions"][0]["status"] = "False".into();
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(sizes(&cluster), [3, 2]);
    let unready = |slice: &Value| {
        let endpoints = slice["endpoints"].as_array().unwrap().clone();
        let ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
        endpoints.iter().filter(|own| !ready(own)).count()
    };
    assert_eq!(slices(&cluster).iter().map(unready).sum::<usize>(), 1);
}

#[test]
fn a_lower_maximum_moves_no_endpoint() {
    let cluster = packed(3);
    cluster.set_config("max-endpoints-per-slice", "2");
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn an_endpoint_that_is_in_two_slices_stays_in_one() {
    let cluster = packed(2);
    let mut copy = slices(&cluster)[0].clone();
    copy["metadata"]["name"] = "web-copy".into();
    copy["metadata"]["uid"] = "copy".into();
    cluster.put(copy);
    assert_eq!(reconcile(&cluster), ["delete"]);
    assert_eq!(sizes(&cluster), [2]);
}

#[test]
fn changed_labels_of_the_service_reach_its_slices() {
    let cluster = packed(2);
    edit_service(&cluster, |service| {
        service["metadata"]["labels"] = json!({"tier": "front"})
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(slices(&cluster)[0]["metadata"]["labels"]["tier"], "front");
    edit_service(&cluster, |service| {
        service["metadata"]["labels"] = json!({})
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(
        slices(&cluster)[0]["metadata"]["labels"]["tier"],
        json!(null)
    );
    // Reserved labels of the Service don't count.
    edit_service(&cluster, |service| {
        service["metadata"]["labels"] = json!({"service.kubernetes.io/headless": "x"});
    });
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn slices_of_others_are_left_alone_and_those_of_an_older_service_are_deleted() {
    let cluster = packed(1);
    let slice = slices(&cluster)[0].clone();
    let put = |name: &str, pointer: &str, value: Value| {
        let mut other = slice.clone();
        other["metadata"]["name"] = name.into();
        other["metadata"]["uid"] = name.into();
        flyball_sdk::testing::set_at(&mut other, pointer, value);
        cluster.put(other);
    };
    put(
        "foreign",
        "/metadata/labels/endpointslice.kubernetes.io~1managed-by",
        json!("somebody"),
    );
    assert!(reconcile(&cluster).is_empty());
    put("older", "/metadata/ownerReferences/0/uid", json!("before"));
    put(
        "deleting",
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    assert!(try_reconcile(&cluster).is_ok());
    assert_eq!(
        cluster.written(),
        ["delete discovery.k8s.io/v1/EndpointSlice a/older"]
    );
}
