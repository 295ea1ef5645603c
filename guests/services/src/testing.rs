//! The objects of the guests' tests: a Service and its pods.

use flyball_sdk::prelude::*;

/// A Service `a/web` with one port, and with changes to its spec.
///
/// # Panics
/// If the changes are not an object.
pub fn service(changes: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "a", "uid": "service", "labels": {"tier": "front"},
                     "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
                 "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]},
    });
    for (key, value) in changes.as_object().expect("the changes are an object") {
        service["spec"][key] = value.clone();
    }
    service
}

/// A ready pod of the Service on the node `node`.
pub fn pod(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                   "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}
