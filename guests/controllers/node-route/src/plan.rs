//! Decides which routes are deleted and created: pure functions from the nodes and the cloud's routes.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/route/route_controller.go: reconcile, isResponsibleForRoute,
//! getRouteAction, equalNodeAddrs.

use std::collections::{BTreeMap, BTreeSet};

use flyball_cloud::{NodeAddress, Route};

use crate::settings::{Range, Settings};
use crate::views::Node;

/// The changes of the cloud's routes.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    pub(crate) deletions: Vec<&'a Route>,
    pub(crate) creations: Vec<Creation<'a>>,
    /// The nodes that have a range, or that the cloud has a route to. They get a condition.
    pub(crate) concerned: Vec<&'a Node>,
}

/// A route that is missing.
#[derive(Debug, PartialEq)]
pub(crate) struct Creation<'a> {
    pub(crate) node: &'a Node,
    pub(crate) route: Route,
}

/// Plans the changes.
pub(crate) fn plan<'a>(settings: &Settings, nodes: &'a [Node], routes: &'a [Route]) -> Plan<'a> {
    let mut of_node: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
    for route in routes.iter().filter(|route| !route.target_node.is_empty()) {
        of_node.entry(&route.target_node).or_default().push(route);
    }
    let mut plan = Plan::default();
    // Routes that stay, by node and range.
    let mut kept: BTreeSet<(&str, &str)> = BTreeSet::new();
    for node in nodes {
        let own = of_node.get(node.meta.name.as_str());
        if own.is_some() || !node.pod_cidrs.is_empty() {
            plan.concerned.push(node);
        }
        for cidr in &node.pod_cidrs {
            let is_to_range = |route: &&&Route| route.destination_cidr == *cidr;
            let found = own.and_then(|own| own.iter().find(is_to_range));
            if found.is_some_and(|route| is_up_to_date(route, node)) {
                kept.insert((&node.meta.name, cidr));
            } else {
                plan.creations.push(Creation::new(node, cidr));
            }
        }
    }
    let is_wanted = |route: &Route| {
        let place = (route.target_node.as_str(), route.destination_cidr.as_str());
        !route.blackhole && kept.contains(&place)
    };
    let is_ours = |route: &Route| {
        Range::parse(&route.destination_cidr).is_some_and(|range| settings.is_responsible(range))
    };
    let deleted = |route: &&Route| is_ours(route) && !is_wanted(route);
    plan.deletions = routes.iter().filter(deleted).collect();
    plan
}

/// Whether a route leads to the present addresses of its node, if the cloud compares these.
fn is_up_to_date(route: &Route, node: &Node) -> bool {
    let all_in = |some: &[NodeAddress], others: &[NodeAddress]| {
        some.iter().all(|address| others.contains(address))
    };
    let own = &route.target_node_addresses;
    !route.enable_node_addresses
        || (own.len() == node.addresses.len() && all_in(&node.addresses, own))
}

impl<'a> Creation<'a> {
    fn new(node: &'a Node, cidr: &str) -> Self {
        let route = Route {
            target_node: node.meta.name.clone(),
            target_node_addresses: node.addresses.clone(),
            destination_cidr: cidr.into(),
            ..Route::default()
        };
        Self { node, route }
    }
}
