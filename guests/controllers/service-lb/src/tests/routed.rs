//! The changes that enqueue a Service.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, delta};

use super::world::*;
use crate::ServiceLb;

/// Whether a change enqueues the Service.
fn is_routed(old: Option<&Value>, new: Option<&Value>) -> bool {
    let routed = Cluster::new()
        .route::<ServiceLb>(&[delta(SERVICE, old, new)])
        .unwrap();
    match &routed[..] {
        [] => false,
        [one] => {
            assert_eq!(one.key.to_string(), "team/web");
            true
        }
        more => panic!("{more:?}"),
    }
}

#[test]
fn a_new_service_is_enqueued_if_it_wants_a_load_balancer_or_has_to_be_cleaned_up() {
    assert!(is_routed(None, Some(&service())));
    let internal = with(service(), "/spec/type", "ClusterIP");
    assert!(!is_routed(None, Some(&internal)));
    let other = with(service(), "/spec/loadBalancerClass", "example.com/other");
    assert!(!is_routed(None, Some(&other)));
    let held = with(internal, "/metadata/finalizers", json!([FINALIZER]));
    assert!(is_routed(None, Some(&held)));
    assert!(is_routed(None, Some(&deleting())));
    // Its class does not want a load balancer of the cloud, but it is not of another type either.
    let held = with(other, "/metadata/finalizers", json!([FINALIZER]));
    assert!(!is_routed(None, Some(&held)));
}

#[test]
fn a_deleted_service_is_not_enqueued() {
    assert!(!is_routed(Some(&deleting()), None));
    assert!(!is_routed(Some(&service()), None));
}

#[test]
fn each_change_that_a_load_balancer_depends_on_enqueues_the_service() {
    let port = |field: &str| format!("/spec/ports/0/{field}");
    for (pointer, value) in [
        ("/spec/type", json!("ClusterIP")),
        ("/spec/loadBalancerClass", json!("example.com/other")),
        ("/spec/loadBalancerSourceRanges", json!(["10.0.0.0/8"])),
        (&port("name"), json!("web")),
        (&port("protocol"), json!("UDP")),
        (&port("port"), json!(81)),
        (&port("nodePort"), json!(30081)),
        (&port("targetPort"), json!("http")),
        (&port("appProtocol"), json!("http")),
        ("/spec/sessionAffinity", json!("ClientIP")),
        (
            "/spec/sessionAffinityConfig",
            json!({"clientIP": {"timeoutSeconds": 1}}),
        ),
        ("/spec/loadBalancerIP", json!("192.0.2.7")),
        ("/spec/externalIPs", json!(["192.0.2.8"])),
        ("/metadata/annotations", json!({"a": "b"})),
        ("/metadata/uid", json!("uid-other")),
        ("/spec/externalTrafficPolicy", json!("Local")),
        ("/spec/healthCheckNodePort", json!(30090)),
        ("/spec/ipFamilies", json!(["IPv4", "IPv6"])),
    ] {
        let changed = with(service(), pointer, value);
        assert!(is_routed(Some(&service()), Some(&changed)), "{pointer}");
        assert!(is_routed(Some(&changed), Some(&service())), "{pointer}");
    }
}

#[test]
fn no_other_change_enqueues_the_service() {
    for (pointer, value) in [
        ("/metadata/labels", json!({"a": "b"})),
        ("/metadata/resourceVersion", json!("7")),
        ("/metadata/finalizers", json!([FINALIZER])),
        ("/spec/selector", json!({"a": "b"})),
        ("/spec/internalTrafficPolicy", json!("Local")),
        ("/status/loadBalancer/ingress", json!([{"ip": "192.0.2.1"}])),
    ] {
        let changed = with(service(), pointer, value);
        assert!(!is_routed(Some(&service()), Some(&changed)), "{pointer}");
    }
    // A resync.
    assert!(!is_routed(Some(&ensured()), Some(&ensured())));
    let swapped = with(service(), "/spec/ipFamilies", json!(["IPv6", "IPv4"]));
    let families = with(service(), "/spec/ipFamilies", json!(["IPv4", "IPv6"]));
    assert!(!is_routed(Some(&families), Some(&swapped)));
}

#[test]
fn changes_of_a_service_without_a_load_balancer_enqueue_nothing() {
    let internal = with(service(), "/spec/type", "ClusterIP");
    let changed = with(internal.clone(), "/spec/ports/0/port", 81);
    assert!(!is_routed(Some(&internal), Some(&changed)));
}

#[test]
fn any_change_of_a_service_that_has_to_be_cleaned_up_enqueues_it() {
    assert!(is_routed(Some(&ensured()), Some(&deleting())));
    assert!(is_routed(Some(&deleting()), Some(&deleting())));
}
