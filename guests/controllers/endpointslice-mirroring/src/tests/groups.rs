//! The slices that Endpoints are mirrored to, and the number of writes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

#[test]
fn endpoints_are_mirrored_with_their_metadata() {
    let cluster = cluster(json!([{
        "addresses": [{"ip": "192.0.2.01", "hostname": "first", "nodeName": "node",
                       "targetRef": {"kind": "Pod", "name": "a", "resourceVersion": "7"}}],
        "notReadyAddresses": [{"ip": "192.0.2.2"}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}],
    }]));
    edit(&cluster, |endpoints| {
        endpoints["metadata"]["labels"] = json!({"tier": "front"});
        endpoints["metadata"]["annotations"] = json!({
            "example.com/note": "x",
            "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        });
    });
    assert_eq!(reconcile(&cluster), ["create"]);
    let slice = &slices(&cluster)[0];
    assert_eq!(slice["metadata"]["generateName"], "web-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"tier": "front", "kubernetes.io/service-name": "web",
               "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"})
    );
    assert_eq!(
        slice["metadata"]["annotations"],
        json!({"example.com/note": "x"})
    );
    assert_eq!(
        slice["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "endpoints",
                "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(
        slice["endpoints"],
        json!([
            {"addresses": ["192.0.2.1"], "conditions": {"ready": true}, "hostname": "first", "nodeName": "node",
             "targetRef": {"kind": "Pod", "name": "a", "resourceVersion": "7"}},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
        ])
    );
    assert_eq!(
        slice["ports"],
        json!([{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}])
    );
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn each_family_and_each_set_of_ports_has_a_slice() {
    let cluster = cluster(json!([
        subset(&["192.0.2.1", "2001:db8::1"], 80),
        subset(&["192.0.2.1"], 81),
        subset(&["192.0.2.2"], 80),
    ]));
    assert_eq!(reconcile(&cluster), ["create", "create", "create"]);
    assert_eq!(
        mirrored(&cluster),
        [
            "IPv4 80: 192.0.2.1 192.0.2.2",
            "IPv4 81: 192.0.2.1",
            "IPv6 80: 2001:db8::1"
        ]
    );
    // The IPv6 address is removed.
    edit(&cluster, |endpoints| {
        endpoints["subsets"] = json!([
            subset(&["192.0.2.1", "192.0.2.2"], 80),
            subset(&["192.0.2.1"], 81)
        ]);
    });
    assert_eq!(reconcile(&cluster), ["delete"]);
}

#[test]
fn only_the_slice_that_differs_is_updated() {
    let cluster = cluster(json!([
        subset(&["192.0.2.1"], 80),
        subset(&["192.0.2.2"], 81)
    ]));
    reconcile(&cluster);
    edit(&cluster, |endpoints| {
        endpoints["subsets"][0]["addresses"] = json!([{"ip": "192.0.2.3"}]);
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(
        mirrored(&cluster),
        ["IPv4 80: 192.0.2.3", "IPv4 81: 192.0.2.2"]
    );
    edit(&cluster, |endpoints| {
        let subset = &mut endpoints["subsets"][1];
        subset["notReadyAddresses"] = subset["addresses"].take();
    });
    assert_eq!(reconcile(&cluster), ["update"]);
}

#[test]
fn a_changed_port_reuses_the_slice() {
    let cluster = cluster(json!([subset(&["192.0.2.1"], 80)]));
    reconcile(&cluster);
    let name = slices(&cluster)[0]["metadata"]["name"].clone();
    edit(&cluster, |endpoints| {
        endpoints["subsets"] = json!([subset(&["192.0.2.1"], 81)])
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(slices(&cluster)[0]["metadata"]["name"], name);
    assert_eq!(mirrored(&cluster), ["IPv4 81: 192.0.2.1"]);
    // A slice of the other family is not reused.
    edit(&cluster, |endpoints| {
        endpoints["subsets"] = json!([subset(&["2001:db8::1"], 81)])
    });
    assert_eq!(reconcile(&cluster), ["create", "delete"]);
}

#[test]
fn an_update_removes_the_prefix_of_the_name_and_another_group_brings_it_back() {
    let cluster = cluster(json!([subset(&["192.0.2.1"], 80)]));
    let prefix = || slices(&cluster)[0]["metadata"]["generateName"].clone();
    reconcile(&cluster);
    assert_eq!(prefix(), "web-");
    for (subset, expected) in [
        (subset(&["192.0.2.2"], 80), Value::Null),
        (subset(&["192.0.2.2"], 81), "web-".into()),
    ] {
        edit(&cluster, |endpoints| endpoints["subsets"] = json!([subset]));
        assert_eq!(reconcile(&cluster), ["update"]);
        assert_eq!(prefix(), expected);
    }
}

#[test]
fn changed_labels_and_annotations_are_mirrored() {
    let cluster = cluster(json!([subset(&["192.0.2.1"], 80)]));
    reconcile(&cluster);
    edit(&cluster, |endpoints| {
        endpoints["metadata"]["labels"] = json!({"tier": "front"})
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    edit(&cluster, |endpoints| {
        endpoints["metadata"]["labels"] = json!({});
        endpoints["metadata"]["annotations"] = json!({"example.com/note": "x"});
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    let metadata = slices(&cluster)[0]["metadata"].clone();
    assert_eq!(metadata["labels"]["tier"], json!(null));
    assert_eq!(metadata["annotations"], json!({"example.com/note": "x"}));
    edit(&cluster, |endpoints| {
        endpoints["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"] =
            "2026-01-01T00:00:00Z".into();
    });
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn recreated_endpoints_take_over_the_slices() {
    let cluster = cluster(json!([subset(&["192.0.2.1"], 80)]));
    reconcile(&cluster);
    let mut again = endpoints(json!([subset(&["192.0.2.1"], 80)]));
    again["metadata"]["uid"] = "again".into();
    cluster.put(again);
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(
        slices(&cluster)[0]["metadata"]["ownerReferences"][0]["uid"],
        "again"
    );
}

#[test]
fn of_two_slices_of_a_group_one_stays() {
    let cluster = cluster(json!([subset(&["192.0.2.1"], 80)]));
    reconcile(&cluster);
    let mut copy = slices(&cluster)[0].clone();
    copy["metadata"]["name"] = "web-zzzzz".into();
    copy["metadata"]["uid"] = "copy".into();
    cluster.put(copy);
    assert_eq!(reconcile(&cluster), ["delete"]);
}

#[test]
fn endpoints_that_are_being_deleted_get_no_new_slice() {
    let cluster = cluster(json!([subset(&["192.0.2.1"], 80)]));
    edit(&cluster, |endpoints| {
        endpoints["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn a_failed_write_is_tried_again_unless_the_namespace_is_being_deleted() {
    let cluster = cluster(json!([subset(&["192.0.2.1"], 80)]));
    cluster.fail("create", SLICE, refusal(500, "InternalError"));
    assert!(!try_reconcile(&cluster).unwrap_err().is_terminal());
    cluster.fail("create", SLICE, refusal(403, "NamespaceTerminating"));
    try_reconcile(&cluster).unwrap();
    assert!(cluster.events().is_empty());
}
