//! The description, with the feature gate and without it.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use crate::NodeRoute;

#[test]
fn the_description_has_the_names_of_cloud_controller_manager() {
    let description = NodeRoute::describe();
    description.check().unwrap();
    assert_eq!(description.name, "node-route-controller");
    assert_eq!(description.event_source, "route_controller");
    assert_eq!(permissions(&description), ["v1/Node status patch"]);
    assert!(description.imports.contains("cloud"));
}

#[test]
fn runs_are_periodic_without_the_gate() {
    let description = NodeRoute::describe();
    let ticker = &description.tickers[0];
    assert_eq!(
        (ticker.key.as_str(), ticker.period_ms),
        ("periodic", 10_000)
    );
    assert_eq!(ticker.config, "reconciliation-period");
    assert!(description.watches[0].map.is_empty());
    assert_eq!(description.queues[0].max_retries, Some(0));
}

#[test]
fn runs_follow_the_nodes_with_the_gate() {
    let cluster = Cluster::new();
    let gate = "feature-gates.CloudControllerManagerWatchBasedRoutesReconciliation";
    cluster.set_config(gate, "true");
    let description = NodeRoute::describe_configured(&cluster.host());
    description.check().unwrap();
    assert_eq!(description.watches[0].map.len(), 1);
    assert_eq!(description.watches[0].changes.len(), 2);
    let queue = &description.queues[0];
    assert_eq!((queue.base_delay_ms, queue.max_delay_ms), (10_000, 10_000));
    assert_eq!(queue.max_retries, None);
    assert_eq!(description.tickers[0].key, "tick");
}
