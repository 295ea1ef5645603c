//! Changes after which Endpoints are written, and failed writes.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta, refusal};

use super::world::*;
use crate::EndpointsController;

const ENDPOINTS: &str = "v1/Endpoints";

#[test]
fn a_service_without_pods_has_empty_endpoints() {
    let cluster = Cluster::with([service(json!({}))]);
    assert_eq!(reconcile(&cluster), ["create"]);
    assert_eq!(subsets(&cluster), json!([]));
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn services_that_others_maintain_are_left_alone() {
    for changes in [
        json!({"selector": null}),
        json!({"type": "ExternalName", "externalName": "example.com"}),
    ] {
        let cluster = Cluster::with([service(changes), endpoints("web")]);
        assert!(reconcile(&cluster).is_empty());
    }
}

#[test]
fn the_endpoints_of_a_deleted_service_are_deleted() {
    let cluster = Cluster::with([endpoints("web")]);
    assert_eq!(reconcile(&cluster), ["delete"]);
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn another_order_is_no_change() {
    let cluster = Cluster::with([
        service(json!({})),
        pod("a", "10.0.0.1"),
        pod("b", "10.0.0.2"),
    ]);
    reconcile(&cluster);
    edit(&cluster, ENDPOINTS, |endpoints| {
        let addresses = &mut endpoints["subsets"][0]["addresses"];
        addresses.as_array_mut().unwrap().reverse();
        addresses[0]["targetRef"]["resourceVersion"] = "7".into();
    });
    assert!(reconcile(&cluster).is_empty());
}

#[test]
fn labels_follow_the_service_except_for_the_headless_one() {
    let cluster = Cluster::with([service(json!({}))]);
    reconcile(&cluster);
    edit(&cluster, "v1/Service", |service| {
        service["metadata"]["labels"] = json!({"team": "a"});
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(
        written(&cluster)["metadata"]["labels"],
        json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    edit(&cluster, ENDPOINTS, |endpoints| {
        endpoints["metadata"]["labels"]["service.kubernetes.io/headless"] = "".into();
    });
    assert!(reconcile(&cluster).is_empty());
    edit(&cluster, ENDPOINTS, |endpoints| {
        endpoints["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"] = "me".into();
    });
    assert_eq!(reconcile(&cluster), ["update"]);
}

#[test]
fn a_change_has_its_time_and_other_annotations_stay() {
    let cluster = Cluster::with([service(json!({})), pod("a", "10.0.0.1")]);
    reconcile(&cluster);
    edit(&cluster, ENDPOINTS, |endpoints| {
        endpoints["metadata"]["annotations"]["example.com/note"] = "x".into();
    });
    cluster.edit("v1/Pod", "a", "a", |pod| {
        pod["status"]["conditions"][0] =
            json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:07Z"});
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    let time = "endpoints.kubernetes.io/last-change-trigger-time";
    assert_eq!(
        written(&cluster)["metadata"]["annotations"],
        json!({"example.com/note": "x", time: "2026-01-01T00:00:07Z"})
    );
    cluster.remove("v1/Pod", "a", "a");
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(
        written(&cluster)["metadata"]["annotations"],
        json!({"example.com/note": "x"})
    );
}

#[test]
fn a_stale_annotation_of_truncation_is_removed() {
    let cluster = Cluster::with([service(json!({}))]);
    reconcile(&cluster);
    edit(&cluster, ENDPOINTS, |endpoints| {
        endpoints["metadata"]["annotations"] =
            json!({"endpoints.kubernetes.io/over-capacity": "truncated"});
    });
    assert_eq!(reconcile(&cluster), ["update"]);
    assert_eq!(written(&cluster)["metadata"]["annotations"], json!({}));
}

#[test]
fn a_failed_write_is_an_event() {
    let cluster = Cluster::with([service(json!({}))]);
    cluster.fail("create", ENDPOINTS, refusal(403, "Forbidden"));
    try_reconcile(&cluster).unwrap_err();
    let events = cluster.events();
    assert!(
        events[0].starts_with(
            "Warning FailedToCreateEndpoint Failed to create endpoint for service a/web: "
        ),
        "{events:?}"
    );
    reconcile(&cluster);
    cluster.put(pod("a", "10.0.0.1"));
    cluster.fail("update", ENDPOINTS, refusal(409, "Conflict"));
    try_reconcile(&cluster).unwrap_err();
    let events = cluster.events();
    assert!(
        events[0].starts_with("Warning FailedToUpdateEndpoint Failed to update endpoint a/web: "),
        "{events:?}"
    );
}

#[test]
fn a_namespace_that_is_being_deleted_is_no_failure() {
    let cluster = Cluster::with([service(json!({}))]);
    cluster.fail("create", ENDPOINTS, refusal(403, "NamespaceTerminating"));
    try_reconcile(&cluster).unwrap();
    assert!(cluster.events().is_empty());
}

#[test]
fn only_endpoints_from_before_the_start_may_be_left_over() {
    let mut lock = endpoints("lock");
    lock["metadata"]["annotations"] = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    let cluster = Cluster::new();
    let route = |endpoints: &Value, initial: bool| -> Vec<String> {
        let mut delta = delta(ENDPOINTS, None, Some(endpoints));
        delta.initial = initial;
        let keys = EndpointsController::route(&cluster.host(), &[delta]).unwrap();
        keys.iter().map(|routed| routed.key.to_string()).collect()
    };
    assert_eq!(route(&endpoints("web"), true), ["a/web"]);
    assert!(route(&endpoints("web"), false).is_empty());
    assert!(route(&lock, true).is_empty());
}
