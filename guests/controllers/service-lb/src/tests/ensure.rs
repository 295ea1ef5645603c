//! Services that want a load balancer.

use std::time::Duration;

use flyball_cloud::CloudError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

const ENSURED: [&str; 2] = [
    "Normal EnsuringLoadBalancer Ensuring load balancer",
    "Normal EnsuredLoadBalancer Ensured load balancer",
];

#[test]
fn a_service_gets_the_finalizer_a_load_balancer_and_its_address() {
    let (cluster, cloud) = world(service());
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [PATCH, PATCH]);
    assert_eq!(cloud.called(), ["EnsureLoadBalancer team/web a,b"]);
    assert_eq!(cluster.events(), ENSURED);
    let stored = stored(&cluster);
    assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(
        stored["status"]["loadBalancer"],
        json!({"ingress": [{"ip": "192.0.2.1"}]})
    );
}

#[test]
fn the_cloud_is_given_the_cluster_the_whole_service_and_the_nodes() {
    let labelled = with(service(), "/metadata/labels", json!({"a": "b"}));
    let (cluster, cloud) = world(labelled);
    cluster.set_config("cluster-name", "prod");
    reconcile(&cluster).unwrap();
    let call = &cloud.calls()[0];
    assert_eq!(call.arguments["clusterName"], "prod");
    let given = &call.arguments["service"];
    assert_eq!(given["metadata"]["labels"]["a"], "b");
    assert_eq!(given["spec"], stored(&cluster)["spec"]);
    let nodes: Vec<_> = call
        .nodes
        .iter()
        .map(|node| &node["spec"]["providerID"])
        .collect();
    assert_eq!(nodes, ["fake://a", "fake://b"]);
    assert_eq!(call.nodes[0]["metadata"]["uid"], "uid-a");
}

#[test]
fn the_finalizer_is_written_before_the_cloud_is_called() {
    let (cluster, cloud) = world(service());
    cluster.fail("patch", STATUS, refusal(403, "Forbidden"));
    let error = reconcile(&cluster).unwrap_err().to_string();
    let expected =
        "failed to add load balancer cleanup finalizer: the test refuses this: Forbidden";
    assert_eq!(error, expected);
    assert!(cloud.called().is_empty());
    assert_eq!(
        cluster.events(),
        [
            ENSURED[0],
            &format!("Warning SyncLoadBalancerFailed Error syncing load balancer: {expected}")
        ]
    );
}

#[test]
fn other_finalizers_stay() {
    let (cluster, _) = world(with(
        service(),
        "/metadata/finalizers",
        json!(["example.com/a"]),
    ));
    reconcile(&cluster).unwrap();
    let finalizers = &stored(&cluster)["metadata"]["finalizers"];
    assert!(
        finalizers
            .as_array()
            .unwrap()
            .contains(&json!("example.com/a"))
    );
    assert!(finalizers.as_array().unwrap().contains(&json!(FINALIZER)));
}

#[test]
fn an_equal_status_is_not_written() {
    let (cluster, cloud) = world(ensured());
    cloud.on("EnsureLoadBalancer", |_| {
        Ok(json!({"status": {"ingress": [{"ip": "192.0.2.1", "hostname": "", "ports": null}]}}))
    });
    reconcile(&cluster).unwrap();
    assert!(cluster.written().is_empty());
    assert_eq!(cluster.events(), ENSURED);
}

#[test]
fn a_status_that_differs_in_any_field_is_written() {
    for ingress in [
        json!([]),
        json!([{"hostname": "web.example.com"}]),
        json!([{"ip": "192.0.2.1", "ipMode": "Proxy"}]),
        json!([{"ip": "192.0.2.1", "ports": [{"port": 80, "protocol": "TCP"}]}]),
        json!([{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]),
    ] {
        let (cluster, cloud) = world(ensured());
        let status = json!({"status": {"ingress": ingress}});
        cloud.on("EnsureLoadBalancer", move |_| Ok(status.clone()));
        reconcile(&cluster).unwrap();
        assert_eq!(cluster.written(), [PATCH]);
        assert_eq!(
            stored(&cluster)["status"]["loadBalancer"]["ingress"],
            ingress
        );
    }
}

#[test]
fn an_empty_status_empties_that_of_the_service_and_none_is_an_error() {
    let (cluster, cloud) = world(ensured());
    cloud.on("EnsureLoadBalancer", |_| Ok(json!({"status": {}})));
    reconcile(&cluster).unwrap();
    assert_eq!(
        stored(&cluster)["status"]["loadBalancer"].get("ingress"),
        None
    );

    let (cluster, cloud) = world(ensured());
    cloud.on("EnsureLoadBalancer", |_| Ok(json!({"status": null})));
    let error = reconcile(&cluster).unwrap_err().to_string();
    assert_eq!(
        error,
        "service status returned by EnsureLoadBalancer is nil"
    );
    assert_eq!(cluster.events().len(), 2);
}

#[test]
fn a_load_balancer_without_nodes_is_created_with_a_warning() {
    let cluster = Cluster::with([service()]);
    let cloud = flyball_cloud::testing::FakeCloud::of(&cluster);
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.called(), ["EnsureLoadBalancer team/web"]);
    let warning = "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer";
    assert_eq!(cluster.events(), [ENSURED[0], warning, ENSURED[1]]);
}

#[test]
fn a_load_balancer_of_something_else_is_left_alone() {
    let (cluster, cloud) = world(service());
    cloud.fail("EnsureLoadBalancer", CloudError::implemented_elsewhere());
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cluster.written(), [PATCH], "the finalizer");
    assert_eq!(cluster.events(), [ENSURED[0]]);

    // Wrapped, it is an error like any other.
    let wrapped = CloudError::implemented_elsewhere().wrap("looking up");
    cloud.fail("EnsureLoadBalancer", wrapped);
    reconcile(&cluster).unwrap_err();
}

#[test]
fn an_error_of_the_cloud_is_reported_and_retried() {
    let (cluster, cloud) = world(service());
    cloud.fail("EnsureLoadBalancer", CloudError::other("quota exceeded"));
    let error = reconcile(&cluster).unwrap_err();
    assert!(!error.is_terminal());
    assert_eq!(
        cluster.events()[1],
        "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: quota exceeded"
    );
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.events(), ENSURED);
}

#[test]
fn the_cloud_can_say_when_it_wants_to_be_asked_again() {
    let (cluster, cloud) = world(service());
    let minute = Duration::from_secs(60);
    let error = CloudError::retry("not ready", minute).wrap("waiting");
    cloud.fail("EnsureLoadBalancer", error);
    assert_eq!(reconcile(&cluster).unwrap(), Outcome::RequeueAfter(minute));
    assert_eq!(
        cluster.events()[1],
        "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: waiting: not ready"
    );
}

#[test]
fn a_service_that_vanishes_before_its_status_is_written_is_no_error() {
    let (cluster, _) = world(ensured());
    cluster.edit(SERVICE, "team", "web", |service| {
        service["status"] = json!({})
    });
    cluster.fail("patch", STATUS, refusal(404, "NotFound"));
    reconcile(&cluster).unwrap();
    assert_eq!(cluster.events(), ENSURED);

    cluster.fail("patch", STATUS, refusal(500, "InternalError"));
    let error = reconcile(&cluster).unwrap_err().to_string();
    assert!(
        error.starts_with("failed to update load balancer status: "),
        "{error}"
    );
}

#[test]
fn without_load_balancers_in_the_cloud_nothing_is_done() {
    let (cluster, cloud) = world(service());
    cloud.set_capabilities(|capabilities| capabilities.load_balancer = false);
    reconcile(&cluster).unwrap();
    pass(&cluster).unwrap();
    assert!(cluster.written().is_empty() && cluster.events().is_empty());
    assert!(cloud.called().is_empty());
}

#[test]
fn without_a_provider_the_service_waits() {
    let cluster = Cluster::with([service()]);
    assert_eq!(
        reconcile(&cluster).unwrap(),
        Outcome::RequeueAfter(crate::WAIT)
    );
    assert_eq!(pass(&cluster).unwrap(), Outcome::RequeueAfter(crate::WAIT));
    assert!(cluster.written().is_empty() && cluster.events().is_empty());
}
