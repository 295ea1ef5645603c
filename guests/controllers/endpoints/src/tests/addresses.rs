//! The addresses of pods.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

#[test]
fn a_service_gets_endpoints_with_its_pods() {
    let cluster = Cluster::with([service(json!({})), pod("web-1", "10.0.0.1")]);
    assert_eq!(reconcile(&cluster), ["create"]);
    let endpoints = written(&cluster);
    assert_eq!(
        endpoints["metadata"]["labels"],
        json!({"tier": "front", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    assert_eq!(
        endpoints["metadata"]["annotations"],
        json!({"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"})
    );
    assert_eq!(
        endpoints["subsets"],
        json!([{
            "addresses": [{
                "ip": "10.0.0.1", "nodeName": "node",
                "targetRef": {"kind": "Pod", "namespace": "a", "name": "web-1", "uid": "uid-web-1"},
            }],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        }])
    );
    assert!(reconcile(&cluster).is_empty());
}

/// The subsets of a Service with these changes and pods.
fn with(changes: Value, pods: impl IntoIterator<Item = Value>) -> Value {
    let cluster = Cluster::with([service(changes)]);
    pods.into_iter().for_each(|pod| cluster.put(pod));
    reconcile(&cluster);
    subsets(&cluster)
}

#[test]
fn pods_that_are_not_ready_are_listed_apart_unless_they_are_published() {
    let pods = || {
        [
            pod("a", "10.0.0.1"),
            unready(pod("b", "10.0.0.2")),
            terminating(pod("c", "10.0.0.3")),
        ]
    };
    assert_eq!(
        with(json!({}), pods()),
        json!([[["10.0.0.1"], ["10.0.0.2"], [8080]]])
    );
    assert_eq!(
        with(json!({"publishNotReadyAddresses": true}), pods()),
        json!([[["10.0.0.1", "10.0.0.2", "10.0.0.3"], [], [8080]]])
    );
}

#[test]
fn ended_pods_and_those_without_an_address_are_left_out() {
    let mut ended = pod("a", "10.0.0.1");
    ended["status"]["phase"] = "Succeeded".into();
    let mut pending = pod("b", "10.0.0.2");
    pending["status"] = json!({"phase": "Pending"});
    assert_eq!(with(json!({}), [ended, pending]), json!([]));
}

#[test]
fn addresses_are_of_the_first_family_of_the_service() {
    let both = || {
        let mut pod = pod("a", "10.0.0.1");
        pod["status"]["podIPs"] = json!([{"ip": "10.0.0.1"}, {"ip": "fd00:0::1"}]);
        [pod]
    };
    let first = |changes: Value| with(changes, both())[0][0][0].clone();
    assert_eq!(first(json!({"ipFamilies": ["IPv6", "IPv4"]})), "fd00::1");
    assert_eq!(first(json!({"ipFamilies": ["IPv4", "IPv6"]})), "10.0.0.1");
    assert_eq!(
        first(json!({"ipFamilies": null, "clusterIP": "fd00::9"})),
        "fd00::1"
    );
    assert_eq!(
        first(json!({"ipFamilies": null, "clusterIP": "None"})),
        "10.0.0.1"
    );
    let only_v4 = with(json!({"ipFamilies": ["IPv6"]}), [pod("a", "10.0.0.1")]);
    assert_eq!(only_v4, json!([]));
}

#[test]
fn pods_with_other_numbers_of_a_named_port_are_in_other_subsets() {
    let ports = json!([{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"}]);
    let named = |name: &str, ip: &str, port: u32| {
        let mut pod = pod(name, ip);
        pod["spec"]["containers"] =
            json!([{"ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}]}]);
        pod
    };
    let pods = [
        named("a", "10.0.0.1", 8080),
        named("b", "10.0.0.2", 8081),
        pod("without", "10.0.0.3"),
    ];
    assert_eq!(
        with(json!({"ports": ports}), pods),
        json!([[["10.0.0.1"], [], [8080]], [["10.0.0.2"], [], [8081]]])
    );
}

#[test]
fn only_a_headless_service_needs_no_ports() {
    let headless = json!({"clusterIP": "None", "ports": null});
    assert_eq!(
        with(headless, [pod("a", "10.0.0.1")]),
        json!([[["10.0.0.1"], [], []]])
    );
    assert_eq!(
        with(json!({"ports": null}), [pod("a", "10.0.0.1")]),
        json!([])
    );
}

#[test]
fn a_headless_service_names_hosts_and_has_a_label() {
    let mut first = pod("a", "10.0.0.1");
    first["spec"]["hostname"] = "first".into();
    first["spec"]["subdomain"] = "web".into();
    let cluster = Cluster::with([service(json!({"clusterIP": "None"})), first]);
    reconcile(&cluster);
    let endpoints = written(&cluster);
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["hostname"], "first");
    assert_eq!(
        endpoints["metadata"]["labels"]["service.kubernetes.io/headless"],
        ""
    );
    assert!(reconcile(&cluster).is_empty());
}
