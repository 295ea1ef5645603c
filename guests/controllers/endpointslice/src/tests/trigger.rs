//! The annotation with the time of the change.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

fn annotation(cluster: &Cluster) -> Value {
    slices(cluster)[0]["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"]
        .clone()
}

#[test]
fn a_slice_has_the_time_of_the_change_that_it_publishes() {
    let cluster = cluster([service(json!({})), pod("web-1", "10.0.0.1")]);
    reconcile(&cluster);
    assert_eq!(annotation(&cluster), "2026-01-01T00:00:00Z");
    edit_pod(&cluster, "web-1", |pod| {
        pod["status"]["conditions"][0] = json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:07Z"});
    });
    reconcile(&cluster);
    assert_eq!(annotation(&cluster), "2026-01-01T00:00:07Z");
    // Changed labels have no time.
    edit_service(&cluster, |service| {
        service["metadata"]["labels"] = json!({"tier": "front"})
    });
    reconcile(&cluster);
    assert_eq!(annotation(&cluster), json!(null));
}

#[test]
fn a_time_that_changes_nothing_is_not_written() {
    let cluster = cluster([service(json!({})), pod("web-1", "10.0.0.1")]);
    reconcile(&cluster);
    edit_pod(&cluster, "web-1", |pod| {
        pod["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:07Z".into();
    });
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn other_annotations_stay_unless_the_slice_is_reused() {
    let cluster = cluster([
        service(json!({})),
        pod("web-1", "10.0.0.1"),
        pod("web-2", "10.0.0.2"),
    ]);
    reconcile(&cluster);
    let name = slices(&cluster)[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    cluster.edit("discovery.k8s.io/v1/EndpointSlice", "a", &name, |slice| {
        slice["metadata"]["annotations"]["example.com/note"] = "x".into();
    });
    let note = || slices(&cluster)[0]["metadata"]["annotations"]["example.com/note"].clone();
    cluster.remove("v1/Pod", "a", "web-2");
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(note(), "x");
    cluster.remove("v1/Pod", "a", "web-1");
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(note(), json!(null));
}
