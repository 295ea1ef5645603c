//! The objects of the tests, and the results of the controller.

use flyball_sdk::Error;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use crate::EndpointSliceController;

/// A Service `a/web` with one port, and with changes to its spec.
pub(super) fn service(changes: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "a", "uid": "service",
                     "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
                 "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]},
    });
    for (key, value) in changes.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

/// A ready pod of the Service on the node `node`.
pub(super) fn pod(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                   "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

/// Ready pods `web-00`, `web-01`, ….
pub(super) fn pods(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(|at| pod(&format!("web-{at:02}"), &format!("10.0.0.{}", at + 1)))
}

pub(super) fn node(name: &str, zone: &str) -> Value {
    let labels = match zone {
        "" => json!({}),
        zone => json!({"topology.kubernetes.io/zone": zone}),
    };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A cluster with the node `node` without a zone, and these objects.
pub(super) fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.put(node("node", ""));
    cluster
}

pub(super) fn try_reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<EndpointSliceController>("a/web")
}

/// Reconciles, and returns the verbs of the writes.
pub(super) fn reconcile(cluster: &Cluster) -> Vec<String> {
    try_reconcile(cluster).expect("it succeeds");
    cluster
        .writes()
        .into_iter()
        .map(|write| write.verb)
        .collect()
}

pub(super) fn slices(cluster: &Cluster) -> Vec<Value> {
    cluster.objects("discovery.k8s.io/v1/EndpointSlice")
}

/// The names of the pods of each slice.
pub(super) fn members(cluster: &Cluster) -> Vec<Vec<String>> {
    let name = |endpoint: &Value| endpoint["targetRef"]["name"].as_str().unwrap().to_owned();
    let members = |slice: &Value| {
        let endpoints = slice["endpoints"].as_array();
        endpoints.into_iter().flatten().map(name).collect()
    };
    slices(cluster).iter().map(members).collect()
}

/// The number of endpoints of each slice, in descending order.
pub(super) fn sizes(cluster: &Cluster) -> Vec<usize> {
    let mut sizes: Vec<usize> = members(cluster).iter().map(Vec::len).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    sizes
}

pub(super) fn edit_pod(cluster: &Cluster, name: &str, change: impl FnOnce(&mut Value)) {
    cluster.edit("v1/Pod", "a", name, change);
}

pub(super) fn edit_service(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster.edit("v1/Service", "a", "web", change);
}
