//! The routes that are deleted and created.

use flyball_cloud::Route;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, view};

use super::world::*;
use crate::plan::plan;
use crate::settings::Settings;
use crate::views::Node;

/// The deletions and the creations, as lines.
fn planned(nodes: &[Value], routes: &[Route]) -> (Vec<String>, Vec<String>) {
    let cluster = Cluster::new();
    cluster.set_config("cluster-cidr", CLUSTER);
    let settings = Settings::read(&cluster.host()).unwrap();
    let nodes: Vec<Node> = nodes.iter().cloned().map(view).collect();
    let plan = plan(&settings, &nodes, routes);
    let line = |route: &Route| format!("{} {}", route.target_node, route.destination_cidr);
    (
        plan.deletions.iter().map(|route| line(route)).collect(),
        plan.creations.iter().map(|one| line(&one.route)).collect(),
    )
}

const A: &str = "10.244.1.0/24";
const B: &str = "10.244.2.0/24";

#[test]
fn each_range_of_each_node_gets_a_route() {
    let six = "fd00:1::/64";
    let nodes = [node("a", &[A, six]), node("b", &[B]), node("c", &[])];
    let (deletions, creations) = planned(&nodes, &[route("a", A)]);
    assert!(deletions.is_empty());
    assert_eq!(creations, [format!("a {six}"), format!("b {B}")]);
}

#[test]
fn routes_that_no_node_wants_are_deleted() {
    let routes = [route("a", A), route("a", B), route("gone", "10.244.3.0/24")];
    let (deletions, creations) = planned(&[node("a", &[A])], &routes);
    assert_eq!(
        deletions,
        [format!("a {B}"), "gone 10.244.3.0/24".to_owned()]
    );
    assert!(creations.is_empty());
}

#[test]
fn routes_outside_of_the_cluster_are_left_alone() {
    let routes = [route("gone", "192.0.2.0/24"), route("gone", "not a range")];
    assert_eq!(planned(&[], &routes), (vec![], vec![]));
}

#[test]
fn a_route_to_the_wrong_node_is_deleted_and_created_for_the_right_one() {
    let (deletions, creations) = planned(&[node("a", &[A]), node("b", &[])], &[route("b", A)]);
    assert_eq!(deletions, [format!("b {A}")]);
    assert_eq!(creations, [format!("a {A}")]);
}

#[test]
fn blackholes_are_deleted() {
    let blackhole = |node: &str| Route {
        blackhole: true,
        ..route(node, A)
    };
    let (deletions, creations) = planned(&[node("a", &[B])], &[blackhole("")]);
    assert_eq!(deletions, [format!(" {A}")]);
    assert_eq!(creations, [format!("a {B}")]);
    // One that names a node counts as its route. The next run creates another one.
    let (deletions, creations) = planned(&[node("a", &[A])], &[blackhole("a")]);
    assert_eq!(deletions, [format!("a {A}")]);
    assert!(creations.is_empty());
    let outside = Route {
        blackhole: true,
        ..route("", "192.0.2.0/24")
    };
    assert_eq!(planned(&[], &[outside]), (vec![], vec![]));
}

#[test]
fn a_route_without_a_node_is_deleted() {
    let (deletions, _) = planned(&[node("a", &[])], &[route("", A)]);
    assert_eq!(deletions, [format!(" {A}")]);
}

#[test]
fn a_route_to_other_addresses_is_deleted_and_created() {
    let replaced = (vec![format!("a {A}")], vec![format!("a {A}")]);
    let nodes = [node("a", &[A])];
    assert_eq!(
        planned(&nodes, &[addressed("a", A, &["10.0.0.1"])]),
        (vec![], vec![])
    );
    assert_eq!(
        planned(&nodes, &[addressed("a", A, &["10.0.0.2"])]),
        replaced
    );
    assert_eq!(planned(&nodes, &[addressed("a", A, &[])]), replaced);
    // A cloud that does not compare addresses.
    assert_eq!(planned(&nodes, &[route("a", A)]), (vec![], vec![]));
}

#[test]
fn the_order_of_addresses_does_not_matter() {
    let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"},
                           {"type": "InternalIP", "address": "fd00::1"}]);
    let nodes = [with(node("a", &[A]), "/status/addresses", addresses)];
    let routes = [addressed("a", A, &["fd00::1", "10.0.0.1"])];
    assert_eq!(planned(&nodes, &routes), (vec![], vec![]));
}

#[test]
fn a_creation_has_the_addresses_of_its_node_and_no_name() {
    let cluster = Cluster::new();
    cluster.set_config("cluster-cidr", CLUSTER);
    let settings = Settings::read(&cluster.host()).unwrap();
    let nodes: [Node; 1] = [view(node("a", &[A]))];
    let plan = plan(&settings, &nodes, &[]);
    let route = &plan.creations[0].route;
    assert_eq!(
        (route.name.as_str(), route.target_node_addresses.len()),
        ("", 1)
    );
}
