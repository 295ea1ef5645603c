//! The queue of changed nodes.

use flyball_sdk::Request;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;
use crate::EndpointSliceController;
use crate::describe::NODE_QUEUE;

/// The Services that changed nodes enqueue.
fn enqueued(cluster: &Cluster) -> Vec<String> {
    let request = Request::new(NODE_QUEUE, "nodes");
    cluster
        .reconcile_request::<EndpointSliceController>(&request)
        .unwrap();
    let keys = cluster.enqueued().into_iter();
    keys.map(|enqueued| enqueued.key).collect()
}

#[test]
fn a_zone_that_is_new_enqueues_the_services_with_hints() {
    let mut service = service(json!({}));
    service["metadata"]["annotations"] =
        json!({"service.kubernetes.io/topology-aware-hints": "auto"});
    let cluster = Cluster::with([service]);
    for (mut pod, zone) in pods(4).zip(["west", "east", "west", "east"]) {
        pod["spec"]["nodeName"] = format!("node-{zone}").into();
        cluster.put(pod);
        cluster.put(node(&format!("node-{zone}"), zone));
    }
    // Without hints, nothing is overloaded.
    assert!(enqueued(&cluster).is_empty());
    reconcile(&cluster);
    assert!(enqueued(&cluster).is_empty());
    cluster.put(node("node-south", "south"));
    assert_eq!(enqueued(&cluster), ["a/web"]);
    cluster.remove("v1/Node", "", "node-south");
    cluster.put(node("node", ""));
    assert_eq!(enqueued(&cluster), ["a/web"]);
}

#[test]
fn services_without_the_annotation_are_not_enqueued() {
    let close = service(json!({"trafficDistribution": "PreferClose"}));
    let cluster = Cluster::with([close, pod("web-1", "10.0.0.1"), node("node", "west")]);
    reconcile(&cluster);
    assert!(enqueued(&cluster).is_empty());
}
