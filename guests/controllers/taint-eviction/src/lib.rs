//! taint-eviction-controller: deletes pods that don't tolerate the `NoExecute` taints of their nodes.
//!
//! Keys name nodes: all pods of a node are decided together. `reconcile` names the steps:
//!
//! 1. [`timers`] recalls the pending evictions of the node.
//! 2. [`plan`] decides, by the [`tolerance`] of each pod, which pods are evicted now, later or not at all.
//! 3. Before a pod is evicted, the API server is asked for the node's taints: the cache of a process that was
//!    suspended, or cut off from the API server, is out of date.
//! 4. [`evict`] deletes the pods.
//!
//! It is a controller of its own, so that its decisions can be left to another one (KEP-3902).
//!
//! While a node exists and has no such taint, a change of its pods enqueues nothing.
//!
//! Upstream: pkg/controller/tainteviction/taint_eviction.go: New, PodUpdated, NodeUpdated, handlePodUpdate,
//! handleNodeUpdate, getNoExecuteTaints.

pub mod evict;
pub mod plan;
pub mod timers;
pub mod tolerance;
pub mod views;

#[cfg(test)]
mod tests;

use std::time::Duration;

use flyball_pods::disruption::LATENESS;
use flyball_sdk::describe::{MetricType, Queue, queue};
use flyball_sdk::prelude::*;
use flyball_taints::{COMPARISON_OPERATORS, NO_EXECUTE};

use plan::{Plan, Taints, plan};
use timers::Timer;
use views::{BY_NODE, Node, Pod};

/// The queue of nodes.
const QUEUE: &str = "noexec_taint_node";
/// How long due evictions wait after the API server was unreachable, so that kubelets that could not reach it either
/// can report first.
const AFTER_OUTAGE: Duration = Duration::from_secs(60);
/// The longest backoff, so that the end of an outage is soon noticed.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The controller.
pub struct TaintEviction;

export!(TaintEviction);

impl Controller for TaintEviction {
    fn describe() -> Description {
        let [base, max] =
            [Duration::from_millis(10), MAX_BACKOFF].map(|time| time.as_millis() as u32);
        describe("taint-eviction-controller", env!("CARGO_PKG_VERSION"))
            .watch(nodes())
            .watch(pods())
            .index(BY_NODE, Pod::KIND, "spec.nodeName")
            .queue_with(Queue {
                base_delay_ms: base,
                max_delay_ms: max,
                ..queue(QUEUE)
            })
            .permission(Node::KIND, ["get"])
            .permission(Pod::KIND, ["delete"])
            .permission_on(Pod::KIND, "status", ["patch"])
            .feature_gate(COMPARISON_OPERATORS, false)
            .metric(
                MetricType::Counter,
                evict::DELETED,
                &[],
                "Total number of Pods deleted by TaintEvictionController since its start.",
            )
            .metric(
                MetricType::Histogram(LATENESS.into()),
                evict::DURATION,
                &[],
                "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its \
                 deletion via TaintEvictionController.",
            )
            .concurrency(8)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let name = &request.key.name;
        let taints = taints(host.get::<Node>("", name)?);
        let before = timers::recall(host, name);
        if before.is_empty() && taints.as_ref().is_none_or(Vec::is_empty) {
            return Ok(Outcome::Done);
        }
        let mut plan = decide(host, name, &taints, &before)?;
        if !plan.evict.is_empty() {
            let live = live_taints(host, name)?;
            plan = decide(host, name, &live, &after_outage(host, name, before.clone()))?;
        }
        for pod in &plan.cancelled {
            evict::report_cancelled(host, pod);
        }
        let (done, failure) = evict::evict(host, &plan.evict);
        plan.timers.retain(|timer| !done.contains(&timer.uid));
        timers::store(host, name, &before, &plan.timers)?;
        let next = timers::next(&plan.timers, host.now());
        outcome(host, &request.key, failure, next)
    }
}

/// The nodes that have or had a `NoExecute` taint.
fn nodes() -> Watch {
    watch::<Node>()
        .when_at(&["spec.taints"])
        .enqueue(Mapping::itself().having("spec.taints[*].effect", NO_EXECUTE))
}

/// The pods of nodes that have a `NoExecute` taint. When a node loses its taints, the node itself is enqueued.
///
/// The deletion of a pod ends its pending eviction. The evictions of a node that was deleted stay pending, so the deletion
/// of a pod of a missing node counts, too.
fn pods() -> Watch {
    let node = || Mapping::named_in_cluster("spec.nodeName").of(Node::KIND);
    watch::<Pod>()
        .when_at(&["spec.nodeName", "spec.tolerations"])
        .enqueue(node().whose("spec.taints[*].effect", NO_EXECUTE))
        .enqueue(node().missing().on([DeltaType::Deleted]))
}

fn taints(node: Option<Node>) -> Taints {
    node.map(Node::evicting)
}

fn decide(host: &Host, node: &str, taints: &Taints, timers: &[Timer]) -> Result<Plan, Error> {
    let pods = host.list::<Pod>().index(BY_NODE, node).all()?;
    let compares = host.feature_enabled(COMPARISON_OPERATORS);
    Ok(plan(taints, pods, timers, host.now(), compares))
}

/// Asks the API server for the taints of a node. Notes in the memo that it was unreachable.
fn live_taints(host: &Host, node: &str) -> Result<Taints, Error> {
    let live = host.live().get::<Node>("", node);
    let is_outage = |error: &Error| error.api().is_some_and(|error| error.status >= 500);
    if live.as_ref().is_err_and(is_outage) {
        host.memo().put(&outage(node), &true, "", Duration::ZERO)?;
    }
    Ok(taints(live.doing(|| format!("reading node {node}"))?))
}

/// Returns the timers. If the API server was unreachable when timers became due, they are put off.
fn after_outage(host: &Host, node: &str, mut timers: Vec<Timer>) -> Vec<Timer> {
    if host.memo().get::<bool>(&outage(node)).is_none() {
        return timers;
    }
    host.memo().remove(&outage(node));
    let now = host.now();
    for timer in timers.iter_mut().filter(|timer| timer.is_due) {
        timer.put_off(now, AFTER_OUTAGE);
    }
    timers
}

/// The key of the memo that notes that the API server was unreachable.
fn outage(node: &str) -> String {
    format!("outage/{node}")
}

/// The outcome of a reconcile after which the next eviction is due at `next`. A failed key is retried after the queue's
/// backoff, which can be longer; so the earlier time is enqueued separately.
fn outcome(
    host: &Host,
    key: &Key,
    failure: Option<Error>,
    next: Option<Duration>,
) -> Result<Outcome, Error> {
    let Some(failure) = failure else {
        return Ok(next.map_or(Outcome::Done, Outcome::RequeueAfter));
    };
    if let Some(next) = next {
        host.queue().add_after(QUEUE, key, next)?;
    }
    Err(failure)
}
