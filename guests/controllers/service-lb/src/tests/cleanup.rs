//! Services that need no load balancer any more, but have the finalizer.

use flyball_cloud::CloudError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::refusal;

use super::world::*;

const DELETED: [&str; 2] = [
    "Normal DeletingLoadBalancer Deleting load balancer",
    "Normal DeletedLoadBalancer Deleted load balancer",
];

#[test]
fn the_load_balancer_of_a_deleted_service_is_deleted_before_the_service() {
    let (cluster, cloud) = settled();
    cluster.delete(SERVICE, "team", "web");
    reconcile(&cluster).unwrap();
    assert_eq!(
        cloud.called(),
        [
            "GetLoadBalancer team/web",
            "EnsureLoadBalancerDeleted team/web"
        ]
    );
    assert_eq!(cluster.events(), DELETED);
    // The status of a Service that is gone needs no write.
    assert_eq!(cluster.written(), [PATCH]);
    assert!(cluster.object(SERVICE, "team", "web").is_none());
    assert!(cloud.load_balancers().is_empty());
    reconcile(&cluster).unwrap();
    assert!(cloud.called().is_empty() && cluster.events().is_empty());
}

#[test]
fn a_service_of_another_type_loses_its_load_balancer_the_finalizer_and_the_status() {
    let (cluster, cloud) = settled();
    cluster.edit(SERVICE, "team", "web", |service| {
        service["spec"]["type"] = "ClusterIP".into();
        service["metadata"]["finalizers"] = json!(["example.com/a", FINALIZER]);
    });
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.written(), [PATCH, PATCH]);
    let stored = stored(&cluster);
    assert_eq!(stored["metadata"]["finalizers"], json!(["example.com/a"]));
    assert_eq!(stored["status"]["loadBalancer"].get("ingress"), None);
    assert!(cloud.load_balancers().is_empty());
}

#[test]
fn a_service_that_gets_a_class_loses_its_load_balancer_and_the_finalizer() {
    let (cluster, cloud) = settled();
    cluster.edit(SERVICE, "team", "web", |service| {
        service["spec"]["loadBalancerClass"] = "example.com/other".into();
    });
    reconcile(&cluster).unwrap();
    assert!(cloud.load_balancers().is_empty());
    let finalizers = stored(&cluster)["metadata"]["finalizers"].clone();
    assert_eq!(finalizers.as_array().map_or(0, Vec::len), 0);
}

#[test]
fn a_load_balancer_that_the_cloud_has_lost_is_not_deleted_again() {
    let (cluster, cloud) = world(deleting());
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.called(), ["GetLoadBalancer team/web"]);
    assert_eq!(cluster.events(), [DELETED[1]]);
    assert!(cluster.object(SERVICE, "team", "web").is_none());
}

#[test]
fn the_service_stays_until_its_load_balancer_is_deleted() {
    let (cluster, cloud) = settled();
    cluster.delete(SERVICE, "team", "web");
    for (method, text) in [
        (
            "GetLoadBalancer",
            "failed to check if load balancer exists before cleanup",
        ),
        (
            "EnsureLoadBalancerDeleted",
            "failed to delete load balancer",
        ),
    ] {
        cloud.fail(method, CloudError::other("throttled"));
        let error = reconcile(&cluster).unwrap_err().to_string();
        assert_eq!(error, format!("{text}: throttled"));
        let failed = format!("Warning SyncLoadBalancerFailed Error syncing load balancer: {error}");
        assert_eq!(cluster.events().last(), Some(&failed));
        assert!(cluster.written().is_empty());
    }
    reconcile(&cluster).unwrap();
    assert!(cluster.object(SERVICE, "team", "web").is_none());
}

#[test]
fn an_error_with_a_time_is_retried_with_backoff_here() {
    let (cluster, cloud) = settled();
    cluster.delete(SERVICE, "team", "web");
    let error = CloudError::retry("busy", std::time::Duration::from_secs(1));
    cloud.fail("EnsureLoadBalancerDeleted", error);
    reconcile(&cluster).unwrap_err();
}

#[test]
fn a_load_balancer_of_something_else_does_not_keep_the_service() {
    let (cluster, cloud) = settled();
    cluster.delete(SERVICE, "team", "web");
    cloud.fail(
        "EnsureLoadBalancerDeleted",
        CloudError::implemented_elsewhere(),
    );
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.events(), DELETED);
    assert!(cluster.object(SERVICE, "team", "web").is_none());

    let (cluster, cloud) = settled();
    cluster.delete(SERVICE, "team", "web");
    let wrapped = CloudError::implemented_elsewhere().wrap("deleting");
    cloud.fail("EnsureLoadBalancerDeleted", wrapped);
    reconcile(&cluster).unwrap_err();
}

#[test]
fn a_refused_removal_of_the_finalizer_is_retried() {
    let (cluster, cloud) = settled();
    cluster.delete(SERVICE, "team", "web");
    cluster.fail("patch", STATUS, refusal(500, "InternalError"));
    let error = reconcile(&cluster).unwrap_err().to_string();
    let expected = "failed to remove load balancer cleanup finalizer: ";
    assert!(error.starts_with(expected), "{error}");
    assert!(cloud.load_balancers().is_empty());
    reconcile(&cluster).unwrap();
    assert!(cluster.object(SERVICE, "team", "web").is_none());
}
