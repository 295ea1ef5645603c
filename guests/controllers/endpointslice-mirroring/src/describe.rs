//! The controller's description: its watches, queue, permissions, settings and metrics.
//!
//! Upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go: NewController,
//! onServiceUpdate, onEndpointsUpdate, queueEndpointsForEndpointSlice.
//! Upstream: pkg/controller/endpointslicemirroring/metrics/metrics.go.

use std::time::Duration;

use flyball_sdk::describe::{MetricType, Queue, queue};
use flyball_sdk::prelude::*;
use flyball_service_endpoints::settings::BATCH_PERIOD;
use flyball_service_endpoints::size::Gauges;
use flyball_service_endpoints::slice::{self, Slice};
use flyball_service_endpoints::subsets::Endpoints;

use crate::plan::MANAGER;
use crate::source::{Service, Source};

/// The queue, of Endpoints.
pub const QUEUE: &str = "endpoint_slice_mirroring";
/// The setting with the greatest number of addresses of a subset that are mirrored.
pub const MAXIMUM: &str = "max-endpoints-per-subset";

/// Counts writes by their operation.
pub const CHANGES: &str = "endpoint_slice_mirroring_controller_changes";
/// The histogram of the duration of reconciles, in seconds.
pub const DURATION: &str = "endpoint_slice_mirroring_controller_endpoints_sync_duration";
/// The histograms of the numbers of changes in each reconcile.
pub const ADDED: &str = "endpoint_slice_mirroring_controller_endpoints_added_per_sync";
pub const UPDATED: &str = "endpoint_slice_mirroring_controller_endpoints_updated_per_sync";
pub const REMOVED: &str = "endpoint_slice_mirroring_controller_endpoints_removed_per_sync";
pub const SKIPPED: &str = "endpoint_slice_mirroring_controller_addresses_skipped_per_sync";
/// The gauges that sum up all mirrored Endpoints.
pub const GAUGES: Gauges = Gauges {
    endpoints: "endpoint_slice_mirroring_controller_endpoints_desired",
    least: "endpoint_slice_mirroring_controller_desired_endpoint_slices",
    slices: "endpoint_slice_mirroring_controller_num_endpoint_slices",
};

/// Returns the description. Changes of slices take effect after the batch period.
pub fn describe(batch_period: Duration) -> Description {
    let description = flyball_sdk::describe::describe(
        "endpointslice-mirroring-controller",
        env!("CARGO_PKG_VERSION"),
    )
    .watch(endpoints())
    .watch(services())
    .watch(slice::watch(MANAGER, batch_period))
    .queue_with(Queue {
        base_delay_ms: 1_000,
        max_delay_ms: 100_000,
        max_retries: Some(15),
        ..queue(QUEUE)
    })
    .permission(Slice::KIND, ["create", "delete", "update"])
    .config(
        BATCH_PERIOD,
        Some("0s"),
        "how long a change of a slice is delayed, to join it with others",
    )
    .config(
        MAXIMUM,
        Some("1000"),
        "the greatest number of addresses of a subset that are mirrored, from 1 to 1000",
    )
    .concurrency(5)
    .event_source("endpoint-slice-mirroring-controller");
    metrics(description)
}

fn endpoints() -> Watch {
    watch::<Endpoints>()
        .and_view::<Source>()
        .enqueue(Mapping::itself())
}

/// A Service decides by its selector.
fn services() -> Watch {
    watch::<Service>()
        .when_at(&["spec.selector"])
        .enqueue(Mapping::itself())
}

fn metrics(description: Description) -> Description {
    let numbers = || MetricType::Histogram((1..=15).map(|power| f64::from(1 << power)).collect());
    let description = description.metric(
        MetricType::Counter,
        CHANGES,
        &["operation"],
        "Number of EndpointSlice changes",
    );
    let durations = (0..15).map(|power| 0.001 * f64::from(1 << power)).collect();
    let description = GAUGES.describe(description).metric(
        MetricType::Histogram(durations),
        DURATION,
        &[],
        "Duration of syncEndpoints() in seconds",
    );
    [
        (ADDED, "Number of endpoints added on each Endpoints sync"),
        (UPDATED, "Number of endpoints updated on each Endpoints sync"),
        (REMOVED, "Number of endpoints removed on each Endpoints sync"),
        (
            SKIPPED,
            "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset",
        ),
    ]
    .into_iter()
    .fold(description, |description, (name, help)| {
        description.metric(numbers(), name, &[], help)
    })
}
