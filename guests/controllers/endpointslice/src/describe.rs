//! The controller's description: its watches, queues, permissions, settings and metrics.
//!
//! Upstream: pkg/controller/endpointslice/endpointslice_controller.go: NewController, addNode, updateNode, deleteNode,
//! queueServiceForEndpointSlice.
//! Upstream: staging/src/k8s.io/endpointslice/metrics/metrics.go.

use std::time::Duration;

use flyball_sdk::describe::{MetricType, Queue, queue};
use flyball_sdk::prelude::*;
use flyball_service_endpoints::pod;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::settings::BATCH_PERIOD;
use flyball_service_endpoints::size::Gauges;
use flyball_service_endpoints::slice::{self, Slice};

use crate::labels::MANAGER;
use crate::traffic::PREFER_SAME;
use crate::views::{NodeCapacity, NodeZone};

/// The primary queue, of Services.
pub const QUEUE: &str = "endpoint_slice";
/// The queue of the constant key for changed nodes.
pub const NODE_QUEUE: &str = "endpoint_slice_topology";
/// The setting with the greatest number of endpoints of a slice.
pub const MAXIMUM: &str = "max-endpoints-per-slice";
/// The indexes of Services by the annotations that ask for hints.
pub const BY_MODE: &str = "topology-mode";
pub const BY_HINTS: &str = "topology-aware-hints";

/// Counts reconciles by their result.
pub const SYNCS: &str = "endpoint_slice_controller_syncs";
/// Counts writes by their operation.
pub const CHANGES: &str = "endpoint_slice_controller_changes";
/// The histograms of the numbers of changes in each reconcile.
pub const ADDED: &str = "endpoint_slice_controller_endpoints_added_per_sync";
pub const REMOVED: &str = "endpoint_slice_controller_endpoints_removed_per_sync";
pub const CHANGED: &str = "endpoint_slice_controller_endpointslices_changed_per_sync";

/// The gauges that sum up all Services.
pub const GAUGES: Gauges = Gauges {
    endpoints: "endpoint_slice_controller_endpoints_desired",
    least: "endpoint_slice_controller_desired_endpoint_slices",
    slices: "endpoint_slice_controller_num_endpoint_slices",
};
/// Counts the Services by their traffic distribution.
pub const BY_TRAFFIC_DISTRIBUTION: &str =
    "endpoint_slice_controller_services_count_by_traffic_distribution";

/// The least delay after a slice was changed. Changes of several slices are joined.
const SLICE_DELAY: Duration = Duration::from_secs(1);

/// Returns the description. Changes of pods take effect after the batch period.
pub fn describe(batch_period: Duration) -> Description {
    let description =
        flyball_sdk::describe::describe("endpointslice-controller", env!("CARGO_PKG_VERSION"))
            .watch(watch::<Service>().enqueue(Mapping::itself()))
            .watch(pod::watch(batch_period))
            .watch(slice::watch(MANAGER, batch_period.max(SLICE_DELAY)))
            .watch(nodes())
            .watch(pod::watch_terminating(batch_period))
            .index(
                BY_MODE,
                Service::KIND,
                "metadata.annotations['service.kubernetes.io/topology-mode']",
            )
            .index(
                BY_HINTS,
                Service::KIND,
                "metadata.annotations['service.kubernetes.io/topology-aware-hints']",
            )
            .queue_with(Queue {
                base_delay_ms: 1_000,
                max_retries: Some(15),
                ..queue(QUEUE)
            })
            .queue(NODE_QUEUE)
            .permission(Slice::KIND, ["create", "delete", "update"])
            .config(
                BATCH_PERIOD,
                Some("0s"),
                "how long a change of a pod is delayed, to join it with others",
            )
            .config(
                MAXIMUM,
                Some("100"),
                "the greatest number of endpoints of a slice, from 1 to 1000",
            )
            .feature_gate(PREFER_SAME, true)
            .concurrency(5)
            .event_source("endpoint-slice-controller");
    metrics(description)
}

/// A node affects hints if it is created or deleted, becomes ready or unready, or gets another zone.
fn nodes() -> Watch {
    watch::<NodeZone>()
        .and_view::<NodeCapacity>()
        .when_at(&[
            "status.conditions[type=Ready].status",
            "metadata.labels['topology.kubernetes.io/zone']",
        ])
        .enqueue(Mapping::key("nodes").queue(NODE_QUEUE))
}

fn metrics(description: Description) -> Description {
    let numbers = || MetricType::Histogram((1..=15).map(|power| f64::from(1 << power)).collect());
    // client_golang's default buckets, as in kube-controller-manager.
    let default = vec![
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    ];
    GAUGES
        .describe(description)
        .metric(
            MetricType::Counter,
            SYNCS,
            &["result"],
            "Number of EndpointSlice syncs",
        )
        .metric(
            MetricType::Counter,
            CHANGES,
            &["operation"],
            "Number of EndpointSlice changes",
        )
        .metric(
            numbers(),
            ADDED,
            &[],
            "Number of endpoints added on each Service sync",
        )
        .metric(
            numbers(),
            REMOVED,
            &[],
            "Number of endpoints removed on each Service sync",
        )
        .metric(
            MetricType::Histogram(default),
            CHANGED,
            &["topology", "traffic_distribution"],
            "Number of EndpointSlices changed on each Service sync",
        )
        .metric(
            MetricType::Sum,
            BY_TRAFFIC_DISTRIBUTION,
            &["traffic_distribution"],
            "Number of Services using some specific trafficDistribution",
        )
}
