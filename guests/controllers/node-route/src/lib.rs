//! node-route-controller: creates a route for the pods of each node in the network of the cloud.
//!
//! Each run compares all routes of the cloud with the ranges of all nodes ([`plan`](mod@plan)), changes the cloud, and
//! reports in the condition `NetworkUnavailable` of the nodes ([`run`](mod@run)). Runs are periodic, or with a feature
//! gate follow the changes of nodes ([`turn`]).
//!
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/route/route_controller.go: New, handleNodeUpdate, Run,
//! processNextWorkItem.
//! Upstream: staging/src/k8s.io/cloud-provider/controllers/route/metrics.go.

use std::time::Duration;

use flyball_cloud::Cloud;
use flyball_sdk::describe::{MetricType, Queue, Ticker, queue};
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

mod plan;
mod run;
mod settings;
#[cfg(test)]
mod tests;
mod turn;
mod views;

use settings::{CLUSTER_CIDR, CLUSTER_NAME, GATE, PERIOD, RESYNC, Settings};
use views::Node;

const QUEUE: &str = "Routes";
/// The key of a run that changes of nodes ask for.
const NODE_CHANGE: &str = "node_change";
/// The key of a run that no change asks for.
const PERIODIC: &str = "periodic";
/// The key of the ticker that asks for such a run if changes of nodes start the others.
const TICK: &str = "tick";
const SYNCS: &str = "route_controller_route_sync_total";
/// How long to wait for a provider, which is loaded after the controllers.
const WAIT: Duration = Duration::from_secs(1);

/// The controller.
pub struct NodeRoute;

export!(NodeRoute);

impl Controller for NodeRoute {
    fn describe() -> Description {
        described(false)
    }

    fn describe_configured(host: &Host) -> Description {
        described(host.feature_enabled(GATE))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let settings = Settings::read(host)?;
        let capabilities = match Cloud::of(host).capabilities() {
            Err(error) if error.is_unavailable() => return Ok(Outcome::RequeueAfter(WAIT)),
            result => result?,
        };
        if !capabilities.routes {
            return Ok(Outcome::Done);
        }
        let trigger = request.key.name.as_str();
        if trigger == TICK {
            return tick(host);
        }
        let result = run::run(host, &settings);
        let outcome = match &result {
            Ok(true) => "changed",
            Ok(false) => "noop",
            Err(_) => "error",
        };
        host.metrics().add(SYNCS, &[outcome, trigger], 1.0);
        result.map(|_| Outcome::Done)
    }

    /// Asks for a run if a node was added or deleted, or its ranges or addresses changed.
    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        if deltas.is_empty() {
            return Ok(Vec::new());
        }
        Ok(vec![RoutedKey {
            delay: turn::take(host),
            ..RoutedKey::now(Key::new("", NODE_CHANGE))
        }])
    }
}

/// Asks for a run that no change asks for; not at the first tick, since the initial nodes ask for one.
fn tick(host: &Host) -> Result<Outcome, Error> {
    let memo = host.memo();
    if memo.get::<bool>(TICK).is_some() {
        let periodic = Key::new("", PERIODIC);
        host.queue().add_after(QUEUE, &periodic, turn::take(host))?;
    } else {
        // Without the entry, a run comes later.
        let _ = memo.put(TICK, &true, "", Duration::ZERO);
    }
    Ok(Outcome::Done)
}

/// The description, with the feature gate or without it.
fn described(follows_nodes: bool) -> Description {
    let nodes = watch::<Node>();
    let (nodes, queue, ticker) = if follows_nodes {
        let interval = turn::INTERVAL.as_millis() as u32;
        let paced = Queue {
            base_delay_ms: interval,
            max_delay_ms: interval,
            ..queue(QUEUE)
        };
        let nodes = nodes
            .when_at(&["spec.podCIDRs", "status.addresses"])
            .enqueue(Mapping::route());
        (nodes, paced, ticker(TICK, RESYNC, 12 * 60 * 60))
    } else {
        // A failure is repeated by the next run.
        let once = Queue {
            max_retries: Some(0),
            ..queue(QUEUE)
        };
        (nodes, once, ticker(PERIODIC, PERIOD, 10))
    };
    describe("node-route-controller", env!("CARGO_PKG_VERSION"))
        .watch(nodes)
        .queue_with(queue)
        .ticker_with(ticker)
        .config(CLUSTER_CIDR, None, "ranges of the cluster's pods: one, or two of different families")
        .config(CLUSTER_NAME, Some("kubernetes"), "name of the cluster, for the cloud")
        .config(PERIOD, Some("10s"), "time between two runs")
        .config(RESYNC, Some("12h"), "time between two runs that no change asks for, if changes of nodes start runs")
        .feature_gate(GATE, false)
        .permission_on(Node::KIND, "status", ["patch"])
        .import("cloud")
        .event_source("route_controller")
        .metric(
            MetricType::Counter,
            SYNCS,
            &["outcome", "trigger"],
            "A metric counting the number of route reconciles with the cloud provider, labeled by the trigger (periodic or node_change) and the outcome (error if the reconcile failed, changed if at least one route was created or deleted, otherwise noop).",
        )
}

fn ticker(key: &str, config: &str, seconds: u32) -> Ticker {
    Ticker {
        key: key.into(),
        queue: QUEUE.into(),
        period_ms: seconds * 1000,
        config: config.into(),
    }
}
