//! The pass over all Services after a change of the nodes.

use std::rc::Rc;
use std::time::Duration;

use flyball_cloud::CloudError;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Enqueued, refusal};

use super::world::*;

const UPDATED: &str = "Normal UpdatedLoadBalancer Updated load balancer with new hosts";

#[test]
fn new_nodes_are_given_to_the_load_balancers() {
    let (cluster, cloud) = settled();
    cluster.put(node("c"));
    pass(&cluster).unwrap();
    assert_eq!(cloud.called(), ["UpdateLoadBalancer team/web a,b,c"]);
    assert_eq!(cluster.events(), [UPDATED]);
    assert!(cluster.written().is_empty());
    let metrics: Vec<String> = counted(&cluster)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        metrics,
        [
            "service_controller_loadbalancer_sync_total",
            "service_controller_update_loadbalancer_host_latency_seconds",
            "service_controller_nodesync_latency_seconds",
        ]
    );
}

#[test]
fn the_same_nodes_are_not_given_again() {
    let (cluster, cloud) = settled();
    pass(&cluster).unwrap();
    cluster.edit("v1/Node", "", "a", |node| {
        node["status"] = json!({"conditions": [{"type": "Ready", "status": "False"}]});
    });
    pass(&cluster).unwrap();
    assert!(cloud.called().is_empty());
    cluster.edit("v1/Node", "", "a", |node| {
        node["spec"]["providerID"] = "fake://other".into()
    });
    pass(&cluster).unwrap();
    assert_eq!(cloud.called(), ["UpdateLoadBalancer team/web a,b"]);
    pass(&cluster).unwrap();
    assert!(cloud.called().is_empty());
}

#[test]
fn a_load_balancer_that_loses_its_last_node_is_updated_with_a_warning() {
    let (cluster, cloud) = settled();
    for name in ["a", "b"] {
        cluster.remove("v1/Node", "", name);
    }
    pass(&cluster).unwrap();
    assert_eq!(cloud.called(), ["UpdateLoadBalancer team/web"]);
    let warning = "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer";
    assert_eq!(cluster.events(), [warning]);
}

#[test]
fn services_that_have_not_been_reconciled_or_want_no_load_balancer_are_left_out() {
    let (cluster, cloud) = settled();
    for (name, class) in [("new", Value::Null), ("other", json!("example.com/other"))] {
        let named = with(service(), "/metadata/name", name);
        cluster.put(with(named, "/spec/loadBalancerClass", class));
    }
    cluster.put(node("c"));
    // The new one may be in the middle of its first reconcile, with the nodes before.
    let again = Outcome::RequeueAfter(Duration::from_secs(1));
    assert_eq!(pass(&cluster).unwrap(), again);
    assert_eq!(cloud.called(), ["UpdateLoadBalancer team/web a,b,c"]);
    cluster.remove(SERVICE, "team", "new");
    cluster.edit(SERVICE, "team", "web", |service| {
        service["spec"]["type"] = "NodePort".into()
    });
    cluster.put(node("d"));
    assert_eq!(pass(&cluster).unwrap(), Outcome::Done);
    assert!(cloud.called().is_empty());
}

#[test]
fn a_service_that_is_cleaned_up_and_kept_by_another_finalizer_causes_no_further_pass() {
    let (cluster, _) = world(with(
        deleting(),
        "/metadata/finalizers",
        json!(["example.com/other"]),
    ));
    assert_eq!(pass(&cluster).unwrap(), Outcome::Done);
}

#[test]
fn a_service_whose_reconcile_failed_before_it_called_the_cloud_is_updated() {
    let (cluster, cloud) = world(service());
    cluster.fail("patch", STATUS, refusal(403, "Forbidden"));
    reconcile(&cluster).unwrap_err();
    assert_eq!(pass(&cluster).unwrap(), Outcome::Done);
    assert_eq!(cloud.called()[0], "UpdateLoadBalancer team/web a,b");
}

#[test]
fn nodes_that_come_while_the_load_balancer_is_created_are_given_to_it() {
    let (cluster, cloud) = world(service());
    let cluster = Rc::new(cluster);
    let nodes = Rc::downgrade(&cluster);
    cloud.on("EnsureLoadBalancer", move |_| {
        nodes.upgrade().unwrap().put(node("c"));
        Ok(json!({"status": {"ingress": [{"ip": "192.0.2.1"}]}}))
    });
    cloud.on("UpdateLoadBalancer", |_| Ok(json!({})));
    reconcile(&cluster).unwrap();
    let called = [
        "EnsureLoadBalancer team/web a,b",
        "UpdateLoadBalancer team/web a,b,c",
    ];
    assert_eq!(cloud.called(), called);
    assert_eq!(cluster.events().last().unwrap(), UPDATED);
    assert_eq!(pass(&cluster).unwrap(), Outcome::Done);
    assert!(cloud.called().is_empty());
}

#[test]
fn a_failed_update_is_reported_and_the_service_reconciled_as_a_whole() {
    let (cluster, cloud) = settled();
    cluster.put(node("c"));
    cloud.fail("UpdateLoadBalancer", CloudError::other("throttled"));
    pass(&cluster).unwrap();
    assert_eq!(
        cloud.called(),
        [
            "UpdateLoadBalancer team/web a,b,c",
            "GetLoadBalancer team/web"
        ]
    );
    assert_eq!(
        cluster.events(),
        [
            "Warning UpdateLoadBalancerFailed Error updating load balancer with new hosts [a b c] [node names limited, total number of nodes: 3], error: throttled"
        ]
    );
    let enqueued: Vec<_> = cluster
        .enqueued()
        .into_iter()
        .map(|Enqueued { queue, key, .. }| (queue, key))
        .collect();
    assert_eq!(enqueued, [("service".to_owned(), "team/web".to_owned())]);
    let errors = ("service_controller_nodesync_error_total".to_owned(), 1.0);
    assert!(counted(&cluster).contains(&errors));
    // The retry is the Service's.
    pass(&cluster).unwrap();
    assert!(cloud.called().is_empty());
}

#[test]
fn a_failed_update_of_a_load_balancer_that_is_gone_is_no_error() {
    let (cluster, cloud) = settled();
    cluster.put(node("c"));
    cloud.fail("UpdateLoadBalancer", CloudError::other("not found"));
    cloud.on("GetLoadBalancer", |_| Ok(json!({"exists": false})));
    pass(&cluster).unwrap();
    assert!(cluster.events().is_empty() && cluster.enqueued().is_empty());
}

#[test]
fn a_failed_update_is_reported_if_the_cloud_does_not_say_whether_the_load_balancer_exists() {
    let (cluster, cloud) = settled();
    cluster.put(node("c"));
    cloud.fail("UpdateLoadBalancer", CloudError::other("throttled"));
    cloud.fail("GetLoadBalancer", CloudError::other("throttled, too"));
    pass(&cluster).unwrap();
    assert!(cluster.events()[0].ends_with("error: throttled"));
    assert_eq!(cluster.enqueued().len(), 1);
}

#[test]
fn a_load_balancer_of_something_else_is_not_reported() {
    let (cluster, cloud) = settled();
    cluster.put(node("c"));
    cloud.fail("UpdateLoadBalancer", CloudError::implemented_elsewhere());
    pass(&cluster).unwrap();
    assert_eq!(cloud.called().len(), 1);
    assert!(cluster.events().is_empty() && cluster.enqueued().is_empty());
}

#[test]
fn an_ensured_load_balancer_has_the_present_nodes() {
    let (cluster, cloud) = settled();
    cluster.put(node("c"));
    reconcile(&cluster).unwrap();
    assert_eq!(cloud.called(), ["EnsureLoadBalancer team/web a,b,c"]);
    pass(&cluster).unwrap();
    assert!(cloud.called().is_empty());
}

#[test]
fn all_load_balancers_are_updated_when_many_nodes_leave_at_once() {
    let (cluster, cloud) = settled();
    for number in 0..200 {
        cluster.put(node(&format!("node-{number}")));
    }
    for number in 0..30 {
        cluster.put(with(
            service(),
            "/metadata/name",
            format!("web-{number:02}"),
        ));
        let key = format!("team/web-{number:02}");
        cluster.reconcile::<crate::ServiceLb>(&key).unwrap();
    }
    pass(&cluster).unwrap();
    cloud.calls();
    for number in 0..200 {
        cluster.remove("v1/Node", "", &format!("node-{number}"));
    }
    cluster.set_config("concurrent-service-syncs", "4");
    pass(&cluster).unwrap();
    let called = cloud.called();
    assert_eq!(called.len(), 31);
    assert!(
        called.iter().all(|line| line.ends_with(" a,b")),
        "{called:?}"
    );
}
