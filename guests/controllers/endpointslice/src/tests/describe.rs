//! The description: queues, permissions, delays and metrics.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::*;
use crate::EndpointSliceController;
use crate::describe::{ADDED, BY_TRAFFIC_DISTRIBUTION, CHANGED, CHANGES, GAUGES, REMOVED, SYNCS};

#[test]
fn the_queues_are_those_of_kube_controller_manager() {
    let description = EndpointSliceController::describe();
    description.check().unwrap();
    let queue = &description.queues[0];
    assert_eq!(
        (queue.name.as_str(), queue.base_delay_ms, queue.max_delay_ms),
        ("endpoint_slice", 1_000, 1_000_000)
    );
    assert_eq!(
        (queue.qps, queue.burst, queue.max_retries),
        (10.0, 100, Some(15))
    );
    assert_eq!(description.concurrency, 5);
    assert_eq!(description.event_source, "endpoint-slice-controller");
    assert_eq!(
        permissions(&description),
        ["discovery.k8s.io/v1/EndpointSlice  create,delete,update"]
    );
}

/// The delays of the mappings of pods and of slices, in milliseconds.
fn delays(period: Option<&str>) -> Value {
    let cluster = Cluster::new();
    if let Some(period) = period {
        cluster.set_config("updates-batch-period", period);
    }
    let description = EndpointSliceController::describe_configured(&cluster.host());
    let delay = |at: usize| description.watches[at].map[0].delay_ms;
    json!([delay(1), delay(2)])
}

#[test]
fn changes_of_pods_wait_for_the_batch_period_and_those_of_slices_for_a_second_at_least() {
    assert_eq!(delays(None), json!([0, 1000]));
    assert_eq!(delays(Some("500ms")), json!([500, 1000]));
    assert_eq!(delays(Some("3s")), json!([3000, 3000]));
}

#[test]
fn reconciles_and_writes_are_counted() {
    let cluster = cluster([service(json!({})), pod("web-1", "10.0.0.1")]);
    reconcile(&cluster);
    let metrics = cluster.metrics().into_iter();
    let metrics: Vec<_> = metrics
        .map(|(_, name, labels, value)| (name, labels.join(","), value))
        .collect();
    let expected = [
        (ADDED, "", 1.0),
        (REMOVED, "", 0.0),
        (CHANGES, "create", 1.0),
        (CHANGED, "Disabled,", 1.0),
        (GAUGES.endpoints, "", 1.0),
        (GAUGES.least, "", 1.0),
        (GAUGES.slices, "", 1.0),
        (BY_TRAFFIC_DISTRIBUTION, "PreferClose", 0.0),
        (BY_TRAFFIC_DISTRIBUTION, "PreferSameZone", 0.0),
        (BY_TRAFFIC_DISTRIBUTION, "PreferSameNode", 0.0),
        (SYNCS, "success", 1.0),
    ];
    let expected: Vec<_> = expected
        .map(|(name, labels, value)| (name.to_owned(), labels.to_owned(), value))
        .into();
    assert_eq!(metrics, expected);
}

#[test]
fn a_pod_that_ends_wakes_its_services_if_it_terminates() {
    let description = EndpointSliceController::describe();
    let watch = &description.watches[4];
    assert_eq!(watch.changes, [Change::Path("status.phase".into())]);
    assert!(watch.map[0].deleting);
    let of_all = &description.watches[1].changes;
    assert!(!of_all.contains(&Change::Path("status.phase".into())));
}
