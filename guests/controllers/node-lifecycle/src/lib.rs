//! node-lifecycle-controller: watches the health of nodes, and taints nodes that are not ready.
//!
//! - The [`monitor`] looks at all nodes periodically. It notes when it last heard of each ([`observe`]), by the local
//!   clock, marks nodes that have been silent for too long ([`unknown`]) if the API server agrees ([`leases`]), and
//!   updates the states of the zones ([`disruption`]).
//! - A [`limiter`] for each zone decides which nodes that are not ready get a `NoExecute` taint, at a rate that follows
//!   from the zone's state.
//! - [`node`] writes the taints and the deprecated labels of a node: the `NoSchedule` taints follow from its
//!   conditions, and the `NoExecute` taints from the decisions of the monitor and the limiters ([`wanted`]).
//! - [`pods`] marks the pods of nodes that are not ready.
//!
//! A heartbeat enqueues nothing: it is seen in the next pass of the monitor, which reads a row of each node and each
//! lease. The state between two passes is in the memo ([`last_pass`]), and begins anew after an interruption. So neither a
//! process that was suspended nor an API server that was unreachable makes nodes look silent.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: NewNodeLifecycleController, Run, podUpdated.
//! Upstream: pkg/controller/nodelifecycle/metrics.go.

pub mod disruption;
pub mod last_pass;
pub mod leases;
pub mod limiter;
pub mod monitor;
pub mod node;
pub mod observe;
pub mod pods;
pub mod settings;
pub mod taints;
pub mod unknown;
pub mod views;
pub mod wanted;
pub mod zone;

#[cfg(test)]
mod tests;

use flyball_sdk::describe::{MetricType, Queue, Ticker, queue};
use flyball_sdk::prelude::*;

use leases::CIRCUIT_BREAKER;
use settings::{KEYS, PERIOD, Settings};
use views::{BY_NODE, Health, LEASES, Lease, Node, Pod};
use zone::Zone;

/// The queue of nodes.
const NODES: &str = "node_lifecycle_controller";
/// The queue of nodes whose pods may have to be marked.
const PODS: &str = "node_lifecycle_controller_pods";
/// The queue of the monitor's only key.
const MONITOR: &str = "node_lifecycle_controller_monitor";
/// The queue of zones with nodes that wait for a taint.
const LIMITERS: &str = "node_lifecycle_controller_zones";

/// The controller.
pub struct NodeLifecycle;

export!(NodeLifecycle);

impl Controller for NodeLifecycle {
    fn describe() -> Description {
        let description = describe("node-lifecycle-controller", env!("CARGO_PKG_VERSION"))
            .watch(nodes())
            .watch(watch::<Lease>().namespace(LEASES))
            .watch(pods())
            .index(BY_NODE, Pod::KIND, "spec.nodeName")
            .queue(NODES)
            .queue(PODS)
            // A failure is repeated by the next tick.
            .queue_with(Queue {
                max_retries: Some(0),
                ..queue(MONITOR)
            })
            .queue(LIMITERS)
            .ticker_with(Ticker {
                key: "all".into(),
                queue: MONITOR.into(),
                period_ms: Settings::default().period.as_millis() as u32,
                config: PERIOD.into(),
            })
            .permission(Node::KIND, ["get", "patch"])
            .permission_on(Node::KIND, "status", ["patch"])
            .permission_on(Pod::KIND, "status", ["patch"])
            .permission(Lease::KIND, ["get"])
            .feature_gate(CIRCUIT_BREAKER, true)
            .event_source("node-controller")
            .memo_schema(1)
            .concurrency(8);
        let description = metrics(description);
        KEYS.iter()
            .fold(description, |description, (key, default, help)| {
                description.config(key, Some(default), help)
            })
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let name = &request.key.name;
        match request.queue.as_str() {
            MONITOR => monitor::reconcile(host),
            LIMITERS => limiter::reconcile(host, &Zone::parse(name)),
            PODS => pods::mark(host, name),
            _ => node::reconcile(host, name),
        }
    }
}

/// The nodes. A heartbeat alone changes none of these fields.
fn nodes() -> Watch {
    watch::<Node>()
        .and_view::<Health>()
        .when_at(&[
            "metadata.labels['kubernetes.io/os']",
            "metadata.labels['kubernetes.io/arch']",
            "metadata.labels['beta.kubernetes.io/os']",
            "metadata.labels['beta.kubernetes.io/arch']",
            "spec.taints",
            "spec.unschedulable",
            "status.conditions[*].type",
            "status.conditions[*].status",
        ])
        .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified]))
}

/// The pods that are bound to a node and were not marked, above all pods that were bound while the controller was not
/// running.
fn pods() -> Watch {
    let with_status = |status: &str| {
        Mapping::named_in_cluster("spec.nodeName")
            .on([DeltaType::Added, DeltaType::Modified])
            .having("status.conditions[type=Ready].status", status)
            .queue(PODS)
    };
    watch::<Pod>()
        .when_at(&["spec.nodeName"])
        .enqueue(with_status("True"))
        .enqueue(with_status(views::UNKNOWN))
}

fn metrics(description: Description) -> Description {
    let powers =
        |first: f64| MetricType::Histogram((0..8).map(|n| first * 4_f64.powi(n)).collect());
    let zone = &["zone"];
    description
        .metric(
            MetricType::Gauge,
            monitor::HEALTH,
            zone,
            "Gauge measuring percentage of healthy nodes per zone.",
        )
        .metric(
            MetricType::Gauge,
            monitor::SIZE,
            zone,
            "Gauge measuring number of registered Nodes per zones.",
        )
        .metric(
            MetricType::Gauge,
            monitor::UNHEALTHY,
            zone,
            "Gauge measuring number of not Ready Nodes per zones.",
        )
        .metric(
            MetricType::Counter,
            monitor::EVICTIONS,
            zone,
            "Number of Node evictions that happened since current instance of NodeController started.",
        )
        .metric(
            powers(0.001),
            monitor::NODE_DURATION,
            &[],
            "Duration in seconds for NodeController to update the health of a single node.",
        )
        .metric(
            powers(0.01),
            monitor::DURATION,
            &[],
            "Duration in seconds for NodeController to update the health of all nodes.",
        )
}
