//! Services that vanish without the finalizer: their load balancers are deleted by what the controller remembers.

use std::time::Duration;

use flyball_cloud::CloudError;
use flyball_sdk::prelude::*;

use super::world::*;

const DELETED: [&str; 2] = [
    "Normal DeletingLoadBalancer Deleting load balancer",
    "Normal DeletedLoadBalancer Deleted load balancer",
];

#[test]
fn the_load_balancer_of_a_service_that_has_vanished_is_deleted() {
    let (cluster, cloud) = settled();
    cluster.remove(SERVICE, "team", "web");
    reconcile(&cluster).unwrap();
    let calls = cloud.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].method, "EnsureLoadBalancerDeleted");
    let given = &calls[0].arguments["service"];
    assert_eq!(given["metadata"]["uid"], "uid-web");
    assert_eq!(given["spec"]["ports"][0]["port"], 80);
    assert_eq!(cluster.events(), DELETED);
    reconcile(&cluster).unwrap();
    assert!(cloud.called().is_empty(), "it is forgotten");
}

#[test]
fn a_failed_deletion_is_reported_about_the_service_that_has_vanished_and_retried() {
    let (cluster, cloud) = settled();
    cluster.remove(SERVICE, "team", "web");
    cloud.fail("EnsureLoadBalancerDeleted", CloudError::other("throttled"));
    assert_eq!(reconcile(&cluster).unwrap_err().to_string(), "throttled");
    let events = cluster.recorded_events();
    assert_eq!(
        events[1].to_string(),
        "Warning DeleteLoadBalancerFailed Error deleting load balancer: throttled"
    );
    assert_eq!(events[1].about.uid, "uid-web");
    let second = Duration::from_secs(1);
    cloud.fail(
        "EnsureLoadBalancerDeleted",
        CloudError::retry("busy", second),
    );
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::RequeueAfter(second));
    // On this path it is an error.
    cloud.fail(
        "EnsureLoadBalancerDeleted",
        CloudError::implemented_elsewhere(),
    );
    reconcile(&cluster).unwrap_err();
    reconcile(&cluster).unwrap();
    assert!(cloud.load_balancers().is_empty());
}

#[test]
fn a_service_that_was_created_again_gets_a_load_balancer_of_its_own() {
    let (cluster, cloud) = settled();
    cluster.remove(SERVICE, "team", "web");
    cluster.put(with(service(), "/metadata/uid", "uid-new"));
    reconcile(&cluster).unwrap();
    let calls: Vec<(String, Value)> = cloud
        .calls()
        .into_iter()
        .map(|call| {
            (
                call.method,
                call.arguments["service"]["metadata"]["uid"].clone(),
            )
        })
        .collect();
    assert_eq!(
        calls,
        [
            ("EnsureLoadBalancerDeleted".to_owned(), json!("uid-web")),
            ("EnsureLoadBalancer".to_owned(), json!("uid-new")),
        ]
    );
    assert_eq!(cloud.load_balancers(), ["uid-new"]);
    let about: Vec<String> = cluster
        .recorded_events()
        .into_iter()
        .map(|event| event.about.uid)
        .collect();
    assert_eq!(about, ["uid-web", "uid-web", "uid-new", "uid-new"]);
}

#[test]
fn the_new_service_waits_until_the_old_load_balancer_is_deleted() {
    let (cluster, cloud) = settled();
    cluster.remove(SERVICE, "team", "web");
    cluster.put(with(service(), "/metadata/uid", "uid-new"));
    cloud.fail("EnsureLoadBalancerDeleted", CloudError::other("throttled"));
    reconcile(&cluster).unwrap_err();
    assert_eq!(cloud.load_balancers(), ["uid-web"]);
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.load_balancers(), ["uid-new"]);
}

#[test]
fn a_service_that_never_had_a_load_balancer_is_forgotten_without_a_call() {
    let (cluster, cloud) = world(with(service(), "/spec/type", "ClusterIP"));
    cluster.remove(SERVICE, "team", "web");
    reconcile(&cluster).unwrap();
    assert!(cloud.called().is_empty() && cluster.events().is_empty());
}

#[test]
fn a_takeover_remembers_the_services_that_exist() {
    // The memo of the new leader is empty, and all Services are reconciled.
    let (cluster, cloud) = world(ensured());
    reconcile(&cluster).unwrap();
    cluster.remove(SERVICE, "team", "web");
    cloud.calls();
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.called(), ["EnsureLoadBalancerDeleted team/web"]);
}
