//! cloud-node-lifecycle-controller: deletes nodes whose instances are gone from the cloud, and taints those that are shut
//! down.
//!
//! A pass over all nodes begins a period after the end of the one before. It asks the cloud only about nodes that are
//! not ready ([`instances`]). A node that is ready again loses the taint.
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go:
//! NewCloudNodeLifecycleController, Run.
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/metrics.go.

use std::time::Duration;

use flyball_cloud::Cloud;
use flyball_cloud_nodes::{ALL, Pace};
use flyball_sdk::describe::{MetricType, Queue, Ticker, queue};
use flyball_sdk::prelude::*;

mod instances;
mod pass;
#[cfg(test)]
mod tests;
mod views;

use views::{Node, Row};

/// The queue of the only key.
const PASSES: &str = "cloud_node_lifecycle";
/// The configuration key of the time between two passes.
const PERIOD: &str = "monitor-period";
/// The configuration key of the number of nodes that the cloud is asked about at once.
const SYNCS: &str = "concurrent-node-lifecycle-syncs";
const DEFAULT_PERIOD: Duration = Duration::from_secs(5);
/// How long to wait for a provider, which is loaded after the controllers.
const WAIT: Duration = Duration::from_secs(1);
const DURATION: &str = "cloud_node_lifecycle_controller_monitor_nodes_duration_seconds";
const CALLS: &str = "cloud_node_lifecycle_controller_cloud_provider_calls_total";

/// The controller.
pub struct CloudNodeLifecycle;

export!(CloudNodeLifecycle);

impl Controller for CloudNodeLifecycle {
    fn describe() -> Description {
        describe("cloud-node-lifecycle-controller", env!("CARGO_PKG_VERSION"))
            .watch(watch::<Node>().and_view::<Row>())
            // A failure is repeated by the next pass.
            .queue_with(Queue {
                max_retries: Some(0),
                ..queue(PASSES)
            })
            .ticker_with(Ticker {
                key: ALL.into(),
                queue: PASSES.into(),
                period_ms: DEFAULT_PERIOD.as_millis() as u32,
                config: PERIOD.into(),
            })
            .config(PERIOD, Some("5s"), "time between two passes over all nodes")
            .config(SYNCS, Some("1"), "number of nodes that the cloud is asked about at once")
            .permission(Node::KIND, ["delete", "get", "patch"])
            .import("cloud")
            .event_source("cloud-node-lifecycle-controller")
            .metric(
                MetricType::Histogram((0..15).map(|power| 0.001 * 2_f64.powi(power)).collect()),
                DURATION,
                &[],
                "A metric measuring the duration in seconds of a single MonitorNodes loop execution.",
            )
            .metric(
                MetricType::Counter,
                CALLS,
                &["operation", "result"],
                "The total number of cloud provider API calls, labeled by operation and result.",
            )
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        let pace = Pace::new(host, PASSES, host.config_duration(PERIOD, DEFAULT_PERIOD)?);
        let concurrency = host.config_number(SYNCS, 1, 1..)?;
        if let Some(left) = pace.left() {
            return Ok(Outcome::RequeueAfter(left));
        }
        let capabilities = match Cloud::of(host).capabilities() {
            Err(error) if error.is_unavailable() => return Ok(Outcome::RequeueAfter(WAIT)),
            result => result?,
        };
        if !capabilities.instances && !capabilities.instances_v2 {
            return Ok(Outcome::Done);
        }
        let start = host.now();
        pass::all(host, &capabilities, concurrency)?;
        let seconds = host.now().since(start).as_secs_f64();
        host.metrics().observe(DURATION, &[], seconds);
        Ok(Outcome::RequeueAfter(pace.end()))
    }
}
