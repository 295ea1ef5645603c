//! The description.

use std::time::Duration;

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use crate::CloudNode;

#[test]
fn the_description_has_the_names_of_cloud_controller_manager() {
    let description = CloudNode::describe();
    description.check().unwrap();
    assert_eq!(description.name, "cloud-node-controller");
    assert_eq!(description.event_source, "cloud-node-controller");
    assert_eq!(description.queues[0].name, "Nodes");
    assert_eq!(
        permissions(&description),
        ["v1/Node  get,patch", "v1/Node status patch"]
    );
    assert!(description.imports.contains("cloud"));
}

#[test]
fn addresses_are_refreshed_every_five_minutes_unless_the_operator_says_otherwise() {
    let description = CloudNode::describe();
    let ticker = &description.tickers[0];
    assert_eq!(
        Duration::from_millis(ticker.period_ms.into()),
        Duration::from_secs(300)
    );
    assert_eq!(ticker.config, "status-update-frequency");
}

#[test]
fn the_operator_sets_how_many_nodes_are_initialised_at_once() {
    let cluster = Cluster::new();
    assert_eq!(
        CloudNode::describe_configured(&cluster.host()).concurrency,
        1
    );
    cluster.set_config("concurrent-node-syncs", "7");
    assert_eq!(
        CloudNode::describe_configured(&cluster.host()).concurrency,
        7
    );
}

#[test]
fn delays_are_observed_in_powers_of_four() {
    for metric in &CloudNode::describe().metrics {
        let MetricType::Histogram(buckets) = &metric.metric_type else {
            panic!("{} is a histogram", metric.name);
        };
        assert_eq!(buckets[..], [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0]);
    }
}
