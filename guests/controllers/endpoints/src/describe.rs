//! The controller's description: its watches, queue, permissions and settings.
//!
//! Upstream: pkg/controller/endpoint/endpoints_controller.go: NewEndpointController, onServiceUpdate, onServiceDelete,
//! onPodUpdate, onEndpointsDelete, syncPod.

use std::time::Duration;

use flyball_sdk::describe::{Queue, queue};
use flyball_sdk::prelude::*;
use flyball_service_endpoints::pod;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::settings::BATCH_PERIOD;
use flyball_service_endpoints::subsets::Endpoints;

/// The queue, of Services.
pub const QUEUE: &str = "endpoint";

/// Returns the description. Changes of pods take effect after the batch period.
pub fn describe(batch_period: Duration) -> Description {
    flyball_sdk::describe::describe("endpoints-controller", env!("CARGO_PKG_VERSION"))
        .watch(watch::<Service>().enqueue(Mapping::itself()))
        .watch(pod::watch(batch_period))
        .watch(endpoints())
        .watch(pod::watch_terminating(batch_period))
        .queue_with(Queue {
            max_retries: Some(15),
            ..queue(QUEUE)
        })
        .permission(Endpoints::KIND, ["create", "delete", "update"])
        .config(
            BATCH_PERIOD,
            Some("0s"),
            "how long a change of a pod is delayed, to join it with others",
        )
        .concurrency(5)
        .event_source("endpoint-controller")
}

/// Endpoints that another client changes stay as they are until a pod or the Service changes. Deleted Endpoints are
/// created again. Endpoints that exist at the start may be left over.
fn endpoints() -> Watch {
    watch::<Endpoints>()
        .fields(&["."])
        .enqueue(Mapping::itself().on([DeltaType::Deleted]))
        .enqueue(Mapping::route().on([DeltaType::Added]))
}
