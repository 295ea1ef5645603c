//! The description.

use std::fs;

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use crate::ServiceLb;

#[test]
fn the_description_has_the_names_of_cloud_controller_manager() {
    let description = ServiceLb::describe();
    description.check().unwrap();
    assert_eq!(description.name, "service-lb-controller");
    assert_eq!(description.event_source, "service-controller");
    let queues: Vec<_> = description
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    assert_eq!(queues, ["service", "node"]);
    assert_eq!(permissions(&description), ["v1/Service status patch"]);
    assert!(description.imports.contains("cloud"));
}

#[test]
fn a_service_is_retried_after_five_seconds_to_five_minutes_without_a_common_rate() {
    for queue in &ServiceLb::describe().queues {
        assert_eq!((queue.base_delay_ms, queue.max_delay_ms), (5_000, 300_000));
        assert_eq!(queue.qps, 0.0);
    }
}

#[test]
fn the_operator_sets_how_many_load_balancers_are_written_at_once() {
    let cluster = Cluster::new();
    assert_eq!(
        ServiceLb::describe_configured(&cluster.host()).concurrency,
        1
    );
    cluster.set_config("concurrent-service-syncs", "7");
    assert_eq!(
        ServiceLb::describe_configured(&cluster.host()).concurrency,
        7
    );
    cluster.set_config("concurrent-service-syncs", "0");
    let error = cluster.reconcile::<ServiceLb>("a/b").unwrap_err();
    assert!(error.is_terminal(), "{error}");
}

#[test]
fn latencies_are_observed_in_powers_of_two() {
    let description = ServiceLb::describe();
    for metric in &description.metrics[2..] {
        let MetricType::Histogram(buckets) = &metric.metric_type else {
            panic!("{} is a histogram", metric.name);
        };
        assert_eq!((buckets.len(), buckets[0], buckets[14]), (15, 1.0, 16384.0));
    }
}

#[test]
fn the_policy_grants_what_the_description_asks_for() {
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/policy.toml");
    let policy = fs::read_to_string(policy).unwrap();
    assert!(policy.contains("[plugins.service-lb-controller]"));
    assert!(policy.contains("imports = [\"cloud\"]"));
}
