//! The usage by Services.

use flyball_sdk::prelude::*;

use super::world::*;

const NAMES: [&str; 4] = [
    "count/services",
    "services",
    "services.nodeports",
    "services.loadbalancers",
];

fn service(service_type: &str, ports: Value) -> Value {
    let spec = json!({"type": service_type, "ports": ports});
    with(object("v1/Service", "a"), "/spec", spec)
}

#[test]
fn node_ports_and_load_balancers_are_counted_by_the_type() {
    let two = || json!([{"port": 1}, {"port": 2, "nodePort": 30002}]);
    for (service, used) in [
        (service("ClusterIP", two()), ["1", "1", "0", "0"]),
        (service("ExternalName", json!([])), ["1", "1", "0", "0"]),
        (service("NodePort", two()), ["1", "1", "2", "0"]),
        (service("LoadBalancer", two()), ["1", "1", "2", "1"]),
        (service("LoadBalancer", json!([])), ["1", "1", "0", "1"]),
    ] {
        assert_eq!(used_of([service.clone()], NAMES), used, "{service}");
    }
}

#[test]
fn a_load_balancer_without_allocated_node_ports_counts_those_that_are_given() {
    let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30002}, {"port": 3, "nodePort": 0}]);
    let allocating = |value: Value| {
        let service = service("LoadBalancer", ports.clone());
        with(service, "/spec/allocateLoadBalancerNodePorts", value)
    };
    assert_eq!(
        used_of([allocating(false.into())], NAMES),
        ["1", "1", "1", "1"]
    );
    assert_eq!(
        used_of([allocating(true.into())], NAMES),
        ["1", "1", "3", "1"]
    );
    assert_eq!(
        used_of([allocating(Value::Null)], NAMES),
        ["1", "1", "3", "1"]
    );
    let node_port = with(
        service("NodePort", ports),
        "/spec/allocateLoadBalancerNodePorts",
        false,
    );
    assert_eq!(used_of([node_port], NAMES), ["1", "1", "3", "0"]);
}

#[test]
fn other_names_are_not_counted_of_services() {
    assert_eq!(
        used_of(
            [service("NodePort", json!([]))],
            ["services.other", "count/services.core"]
        ),
        ["-", "-"]
    );
}
