//! The objects of the tests, and the steps on them.

use flyball_cloud::testing::FakeCloud;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::{ALL, NODES, ServiceLb};

pub(super) const SERVICE: &str = "v1/Service";
pub(super) const STATUS: &str = "v1/Service/status";
pub(super) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The writes of the finalizer and of the status.
pub(super) const PATCH: &str = "patch v1/Service/status team/web";

/// The Service `team/web` of type LoadBalancer.
pub(super) fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
           "metadata": {"name": "web", "namespace": "team", "uid": "uid-web"},
           "spec": {"type": "LoadBalancer", "sessionAffinity": "None",
                    "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080, "nodePort": 30080}]}})
}

/// The Service with the finalizer and the address of its load balancer.
pub(super) fn ensured() -> Value {
    let held = with(service(), "/metadata/finalizers", json!([FINALIZER]));
    with(
        held,
        "/status/loadBalancer/ingress",
        json!([{"ip": "192.0.2.1"}]),
    )
}

/// The Service in the middle of its deletion.
pub(super) fn deleting() -> Value {
    with(
        ensured(),
        "/metadata/deletionTimestamp",
        "2026-01-01T00:00:00Z",
    )
}

pub(super) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}")},
           "spec": {"providerID": format!("fake://{name}")}})
}

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// A cluster with this Service and the nodes `a` and `b`, and its cloud.
pub(super) fn world(service: Value) -> (Cluster, FakeCloud) {
    let cluster = Cluster::with([service, node("a"), node("b")]);
    let cloud = FakeCloud::of(&cluster);
    (cluster, cloud)
}

/// A cluster whose Service has its load balancer, without any records.
pub(super) fn settled() -> (Cluster, FakeCloud) {
    let (cluster, cloud) = world(service());
    reconcile(&cluster).unwrap();
    drop((
        cluster.writes(),
        cluster.events(),
        cloud.calls(),
        cluster.metrics(),
    ));
    (cluster, cloud)
}

pub(super) fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<ServiceLb>("team/web")
}

/// The pass over all Services after a change of the nodes.
pub(super) fn pass(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile_request::<ServiceLb>(&Request::new(NODES, ALL))
}

/// The Service as it is now.
pub(super) fn stored(cluster: &Cluster) -> Value {
    cluster.object(SERVICE, "team", "web").unwrap()
}

/// The names and values of the metrics since the last call.
pub(super) fn counted(cluster: &Cluster) -> Vec<(String, f64)> {
    let metrics = cluster.metrics().into_iter();
    metrics.map(|(_, name, _, value)| (name, value)).collect()
}
