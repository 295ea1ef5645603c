//! The objects of the tests, and the results of the controller.

use flyball_sdk::Error;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use crate::EndpointsController;

/// A Service `a/web` with one port, and with changes to its spec.
pub(super) fn service(changes: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "a", "uid": "service", "labels": {"tier": "front"},
                     "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
                 "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]},
    });
    for (key, value) in changes.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

/// A ready pod of the Service.
pub(super) fn pod(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                   "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

pub(super) fn unready(mut pod: Value) -> Value {
    pod["status"]["conditions"][0]["status"] = "False".into();
    pod
}

pub(super) fn terminating(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    pod
}

/// Endpoints that the controller wrote for the Service, without addresses.
pub(super) fn endpoints(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": name, "namespace": "a",
                     "labels": {"tier": "front", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
    })
}

pub(super) fn try_reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile::<EndpointsController>("a/web")
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

pub(super) fn written(cluster: &Cluster) -> Value {
    cluster
        .object("v1/Endpoints", "a", "web")
        .expect("there are Endpoints")
}

/// The subsets: for each the ready addresses, the others and the ports.
pub(super) fn subsets(cluster: &Cluster) -> Value {
    let endpoints = written(cluster);
    let each = |list: &Value, field: &str| -> Value {
        let items = list.as_array().into_iter().flatten();
        items.map(|item| item[field].clone()).collect()
    };
    let subsets = endpoints["subsets"].as_array().unwrap().iter();
    subsets
        .map(|subset| {
            json!([
                each(&subset["addresses"], "ip"),
                each(&subset["notReadyAddresses"], "ip"),
                each(&subset["ports"], "port"),
            ])
        })
        .collect()
}

pub(super) fn edit(cluster: &Cluster, kind: &str, change: impl FnOnce(&mut Value)) {
    cluster.edit(kind, "a", "web", change);
}
