//! The description.

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use crate::PoolStatus;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = PoolStatus::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("resourcepoolstatusrequest-controller", 1)
    );
    assert_eq!(description.queues[0].max_retries, Some(5));
    assert_eq!(
        permissions(&description),
        [
            "resource.k8s.io/v1alpha3/ResourcePoolStatusRequest  delete",
            "resource.k8s.io/v1alpha3/ResourcePoolStatusRequest status update"
        ]
    );
    let names = description.metrics.iter();
    let names: Vec<&str> = names.map(|metric| metric.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "resourcepoolstatusrequest_controller_requests_processed_total",
            "resourcepoolstatusrequest_controller_request_processing_errors_total",
            "resourcepoolstatusrequest_controller_request_processing_duration_seconds"
        ]
    );
    let MetricType::Histogram(buckets) = &description.metrics[2].metric_type else {
        panic!("it is a histogram");
    };
    assert_eq!(
        (buckets.len(), buckets[0], buckets[14]),
        (15, 0.001, 16.384)
    );
}

#[test]
fn periods_are_configured() {
    let description = PoolStatus::describe();
    let keys: Vec<_> = description
        .config
        .iter()
        .map(|(key, config)| (key.as_str(), config.default.as_deref()))
        .collect();
    assert_eq!(
        keys,
        [
            ("cleanup-period", Some("10m")),
            ("completed-request-ttl", Some("1h")),
            ("emulated-version", None),
            ("feature-gates.DRADeviceTaintRules", Some("true")),
            ("pending-request-ttl", Some("24h")),
        ]
    );
    assert_eq!(description.tickers[0].config, "cleanup-period");
    assert_eq!(description.tickers[0].period_ms, 600_000);
}
