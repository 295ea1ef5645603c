//! The description: queue, permissions, delay and metrics.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::*;
use crate::EndpointSliceMirroringController;
use crate::describe::{ADDED, CHANGES, DURATION, GAUGES, REMOVED, SKIPPED, UPDATED};

#[test]
fn the_queue_is_that_of_kube_controller_manager() {
    let description = EndpointSliceMirroringController::describe();
    description.check().unwrap();
    let queue = &description.queues[0];
    assert_eq!(
        (queue.name.as_str(), queue.base_delay_ms, queue.max_delay_ms),
        ("endpoint_slice_mirroring", 1_000, 100_000)
    );
    assert_eq!(queue.max_retries, Some(15));
    assert_eq!(description.concurrency, 5);
    assert_eq!(
        description.event_source,
        "endpoint-slice-mirroring-controller"
    );
    assert_eq!(
        permissions(&description),
        ["discovery.k8s.io/v1/EndpointSlice  create,delete,update"]
    );
}

#[test]
fn only_changes_of_slices_wait_for_the_batch_period() {
    let cluster = Cluster::new();
    cluster.set_config("updates-batch-period", "500ms");
    let description = EndpointSliceMirroringController::describe_configured(&cluster.host());
    let delays: Vec<u32> = (description.watches.iter())
        .map(|watch| watch.map[0].delay_ms)
        .collect();
    assert_eq!(delays, [0, 0, 500]);
}

#[test]
fn writes_and_endpoints_are_counted() {
    let cluster = cluster(json!([subset(&["192.0.2.1", "192.0.2.2", "x"], 80)]));
    reconcile(&cluster);
    cluster.metrics();
    edit(&cluster, |endpoints| {
        endpoints["subsets"][0]["addresses"] = json!([{"ip": "192.0.2.2"}, {"ip": "192.0.2.3"}]);
        endpoints["subsets"][0]["addresses"][0]["nodeName"] = "node".into();
    });
    reconcile(&cluster);
    let metrics = cluster.metrics().into_iter();
    let metrics: Vec<_> = metrics
        .map(|(_, name, labels, value)| (name, labels.join(","), value))
        .collect();
    let expected = [
        (GAUGES.endpoints, "", 2.0),
        (GAUGES.least, "", 1.0),
        (GAUGES.slices, "", 1.0),
        (SKIPPED, "", 0.0),
        (ADDED, "", 1.0),
        (UPDATED, "", 1.0),
        (REMOVED, "", 1.0),
        (CHANGES, "update", 1.0),
        // The clock of the fake cluster stands still.
        (DURATION, "", 0.0),
    ];
    let expected: Vec<_> = expected
        .map(|(name, labels, value)| (name.to_owned(), labels.to_owned(), value))
        .into();
    assert_eq!(metrics, expected);
}
