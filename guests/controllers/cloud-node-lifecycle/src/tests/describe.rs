//! The description.

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::*;
use crate::CloudNodeLifecycle;

#[test]
fn the_description_has_the_names_of_cloud_controller_manager() {
    let description = CloudNodeLifecycle::describe();
    description.check().unwrap();
    assert_eq!(description.name, "cloud-node-lifecycle-controller");
    assert_eq!(description.event_source, "cloud-node-lifecycle-controller");
    assert_eq!(permissions(&description), ["v1/Node  delete,get,patch"]);
    assert!(description.imports.contains("cloud"));
    assert_eq!(description.tickers[0].period_ms, 5_000);
    assert_eq!(description.queues[0].max_retries, Some(0));
}

#[test]
fn passes_are_observed_from_a_millisecond_to_sixteen_seconds() {
    let description = CloudNodeLifecycle::describe();
    let MetricType::Histogram(buckets) = &description.metrics[0].metric_type else {
        panic!("it is a histogram");
    };
    assert_eq!(
        (buckets.len(), buckets[0], buckets[14]),
        (15, 0.001, 16.384)
    );
    let (cluster, _) = world(node("a", "True"));
    pass(&cluster);
    let names: Vec<String> = cluster
        .metrics()
        .into_iter()
        .map(|(_, name, ..)| name)
        .collect();
    assert_eq!(
        names,
        ["cloud_node_lifecycle_controller_monitor_nodes_duration_seconds"]
    );
}

#[test]
fn invalid_settings_are_reported() {
    for (key, value) in [
        ("monitor-period", "soon"),
        ("concurrent-node-lifecycle-syncs", "0"),
    ] {
        let cluster = Cluster::new();
        cluster.set_config(key, value);
        let error = cluster.reconcile::<CloudNodeLifecycle>("all").unwrap_err();
        assert!(
            error.is_terminal() && error.to_string().contains(key),
            "{error}"
        );
    }
}
