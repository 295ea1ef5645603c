//! cloud-node-controller: initialises new nodes from what the cloud knows of them, and keeps their addresses up to date.
//!
//! - A kubelet that is told of an external cloud registers its node with the taint `uninitialized`. The controller
//!   asks the cloud for the node's provider ID, type, zone, region and addresses ([`metadata`]), writes them, and
//!   removes the taint ([`initialise`]).
//! - A pass over all initialised nodes brings their addresses up to date ([`refresh`]).
//! - The zone, the region and the type of an initialised node each have two labels, an older and a newer one, which it
//!   keeps equal ([`labels`]).
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/node/node_controller.go: NewCloudNodeController,
//! RunWithContext, syncNode.
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/node/metrics.go.

use std::time::Duration;

use flyball_cloud::Cloud;
use flyball_cloud_nodes::{ALL, Pace};
use flyball_sdk::describe::{MetricType, Queue, Ticker, queue};
use flyball_sdk::prelude::*;

mod addresses;
mod initialise;
mod labels;
mod metadata;
mod refresh;
#[cfg(test)]
mod tests;
mod views;

use views::{Node, UNINITIALIZED};

/// The queue of nodes.
const NODES: &str = "Nodes";
/// The queue of the only key of the passes over all nodes.
const PASSES: &str = "node_addresses";
/// The configuration key of the time between two passes.
const PERIOD: &str = "status-update-frequency";
/// The configuration key of the number of nodes that are initialised at once.
const SYNCS: &str = "concurrent-node-syncs";
/// The configuration key of the number of nodes that a pass asks the cloud about at once; 0 for that of [`SYNCS`].
const UPDATES: &str = "concurrent-node-status-updates";
const DEFAULT_PERIOD: Duration = Duration::from_secs(300);
/// How long to wait for a provider, which is loaded after the controllers.
const WAIT: Duration = Duration::from_secs(1);
const TAINT_REMOVAL_DELAY: &str = "node_controller_cloud_provider_taint_removal_delay_seconds";
const INITIAL_SYNC_DELAY: &str = "node_controller_initial_node_sync_delay_seconds";

/// The controller. Keys name nodes.
pub struct CloudNode;

export!(CloudNode);

impl Controller for CloudNode {
    fn describe() -> Description {
        describe("cloud-node-controller", env!("CARGO_PKG_VERSION"))
            .watch(initialised())
            .watch(uninitialised())
            .queue(NODES)
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
            .config(PERIOD, Some("5m"), "time between two passes over the addresses of all nodes")
            .config(SYNCS, Some("1"), "number of nodes that are initialised at once")
            .config(
                UPDATES,
                Some("0"),
                "number of nodes whose addresses are read at once; 0 for concurrent-node-syncs",
            )
            .permission(Node::KIND, ["get", "patch"])
            .permission_on(Node::KIND, "status", ["patch"])
            .import("cloud")
            .event_source("cloud-node-controller")
            .metric(
                delays(),
                TAINT_REMOVAL_DELAY,
                &[],
                "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single node.",
            )
            .metric(
                delays(),
                INITIAL_SYNC_DELAY,
                &[],
                "Number of seconds after node creation when NodeController finished the initial synchronization of a single node.",
            )
    }

    fn describe_configured(host: &Host) -> Description {
        // `reconcile` reports an invalid number.
        Self::describe().concurrency(syncs(host).unwrap_or(1))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let capabilities = match Cloud::of(host).capabilities() {
            Err(error) if error.is_unavailable() => return Ok(Outcome::RequeueAfter(WAIT)),
            result => result?,
        };
        if !capabilities.instances && !capabilities.instances_v2 {
            return Ok(Outcome::Done);
        }
        if request.queue == PASSES {
            let pace = Pace::new(host, PASSES, host.config_duration(PERIOD, DEFAULT_PERIOD)?);
            if let Some(left) = pace.left() {
                return Ok(Outcome::RequeueAfter(left));
            }
            let concurrency = match host.config_number(UPDATES, 0, 0..)? {
                0 => syncs(host)?,
                number => number,
            };
            refresh::all(host, &capabilities, concurrency)?;
            return Ok(Outcome::RequeueAfter(pace.end()));
        }
        let Some(node) = host.get_by_key::<Node>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        if node.is_uninitialized() {
            initialise::initialise(host, &capabilities, &node)?;
        } else {
            labels::reconcile(host, &node)?;
        }
        Ok(Outcome::Done)
    }
}

fn syncs(host: &Host) -> Result<u32, Error> {
    host.config_number(SYNCS, 1, 1..)
}

/// All nodes. Only their labels are reconciled, once they are initialised.
fn initialised() -> Watch {
    watch::<Node>()
        .when_at(&["metadata.labels", "spec.taints"])
        .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified]))
}

/// The nodes with the taint. Any change tries again whether the cloud knows of them: it may have left them alone.
fn uninitialised() -> Watch {
    watch::<Node>().enqueue(
        Mapping::itself()
            .on([DeltaType::Added, DeltaType::Modified])
            .having("spec.taints[*].key", UNINITIALIZED),
    )
}

fn delays() -> MetricType {
    MetricType::Histogram((0..6).map(|power| 4_f64.powi(power)).collect())
}
