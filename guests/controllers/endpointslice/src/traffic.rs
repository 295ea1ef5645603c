//! Hints for the traffic distribution of a Service (KEP-4444): each endpoint that is ready is meant for its own zone,
//! or also for its own node.
//!
//! Upstream: staging/src/k8s.io/endpointslice/trafficdist/trafficdist.go: ReconcileHints.

use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::slice::{Endpoint, Hints, Named};

use crate::changes::Plan;

/// The feature gate of `PreferSameZone` and `PreferSameNode`.
pub const PREFER_SAME: &str = "PreferSameTrafficDistribution";

/// The known distributions.
pub const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// Whether the traffic distribution of a Service is known. Annotations that ask for hints take precedence over it.
pub fn distribution(service: &Service, prefers_same: bool) -> Option<&str> {
    let distribution = service.traffic_distribution.as_deref()?;
    let is_known = match distribution {
        "PreferClose" => true,
        "PreferSameZone" | "PreferSameNode" => prefers_same,
        _ => false,
    };
    (is_known && !service.wants_zone_hints()).then_some(distribution)
}

/// Sets the hints of all endpoints that are ready, and updates the slices whose hints differ. The hints of others stay.
pub fn hint(plan: &mut Plan, distribution: &str) {
    let with_nodes = distribution == "PreferSameNode";
    let is_wrong = |endpoint: &Endpoint| {
        let hints = hints(endpoint, with_nodes).unwrap_or_default();
        endpoint.is_ready() && endpoint.hints.clone().unwrap_or_default() != hints
    };
    plan.update_where(|slice| slice.endpoints.iter().any(is_wrong));
    let endpoints = plan.written().flatten();
    for endpoint in endpoints.filter(|endpoint| endpoint.is_ready()) {
        endpoint.hints = hints(endpoint, with_nodes);
    }
}

/// Removes all hints.
pub fn remove(plan: &mut Plan) {
    plan.update_where(|slice| slice.endpoints.iter().any(|own| own.hints.is_some()));
    for endpoint in plan.written().flatten() {
        endpoint.hints = None;
    }
}

fn hints(endpoint: &Endpoint, with_nodes: bool) -> Option<Hints> {
    let named = |name: &Option<String>| -> Vec<Named> {
        let name = name.iter().cloned();
        name.map(|name| Named { name }).collect()
    };
    let hints = Hints {
        for_zones: named(&endpoint.zone),
        for_nodes: if with_nodes {
            named(&endpoint.node_name)
        } else {
            Vec::new()
        },
    };
    (hints != Hints::default()).then_some(hints)
}
