//! The usage of a quota by a Service.
//!
//! Upstream: pkg/quota/v1/evaluator/core/services.go: MatchingResources, Usage, portsWithNodePorts,
//! GetQuotaServiceType.

use flyball_sdk::prelude::*;

use crate::amounts::{ResourceList, one};
use crate::views::Service;

/// The limits on Services.
const NAMES: [&str; 4] = [
    "count/services",
    "services",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether a limit of this name counts something of Services.
pub fn tracks(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the usage by a Service. Its node ports are counted by its spec, because they may not be allocated yet.
pub fn usage(service: &Service) -> ResourceList {
    let count = |count: usize| Quantity::of_units(i64::try_from(count).unwrap_or(i64::MAX));
    let all = service.ports.len();
    let given = || {
        service
            .ports
            .iter()
            .filter(|port| port.node_port != 0)
            .count()
    };
    let (node_ports, load_balancers) = match counted_type(service) {
        Some("LoadBalancer") if service.allocates_node_ports == Some(false) => (given(), 1),
        Some("LoadBalancer") => (all, 1),
        Some(_) => (all, 0),
        None => (0, 0),
    };
    ResourceList::from([
        ("count/services".into(), one()),
        ("services".into(), one()),
        ("services.nodeports".into(), count(node_ports)),
        ("services.loadbalancers".into(), count(load_balancers)),
    ])
}

/// Returns the type of a Service, if it has node ports or a load balancer.
pub fn counted_type(service: &Service) -> Option<&str> {
    Some(service.service_type.as_str()).filter(|own| matches!(*own, "NodePort" | "LoadBalancer"))
}
