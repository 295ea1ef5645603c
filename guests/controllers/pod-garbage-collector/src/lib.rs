//! pod-garbage-collector-controller: deletes pods that nothing else deletes.
//!
//! - Ended pods, the oldest first, if there are more than a threshold ([`collect::ended`]).
//! - Pods that are being deleted, on nodes that are out of service ([`collect::out_of_service`]).
//! - Pods that are being deleted and were never on a node ([`collect::unscheduled`]).
//! - Pods on nodes that don't exist ([`orphans`]).
//!
//! kube-controller-manager looks at all pods in each period. Here the first two look up few pods in indexes in each
//! period; the other two have a key for each pod or node that may need them, and the same delays.
//!
//! Upstream: pkg/controller/podgc/gc_controller.go: NewPodGCInternal, Run, gc.
//! Upstream: pkg/controller/podgc/metrics/metrics.go.

pub mod collect;
pub mod delete;
pub mod orphans;
pub mod settings;
pub mod views;

#[cfg(test)]
mod tests;

use std::time::Duration;

use flyball_sdk::describe::{MetricType, Queue, Ticker, queue};
use flyball_sdk::prelude::*;

use settings::{KEYS, PERIOD, Settings};
use views::{BY_NODE, BY_PHASE, BY_TAINT, Node, Pod};

/// The queue of the only periodic key.
const TICKS: &str = "pod_garbage_collector";
/// The queue of pods that are being deleted.
const DELETED_PODS: &str = "pod_garbage_collector_deleted_pods";
/// The queue of nodes that pods are on.
const NODES: &str = "pod_garbage_collector_nodes";
/// The queue of nodes that were missing.
const QUARANTINE: &str = "orphaned_pods_nodes";

/// The controller.
pub struct PodGarbageCollector;

export!(PodGarbageCollector);

impl Controller for PodGarbageCollector {
    fn describe() -> Description {
        describe_with(&Settings::default())
    }

    fn describe_configured(host: &Host) -> Description {
        // `reconcile` reports invalid settings.
        describe_with(&Settings::read(host).unwrap_or_default())
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let settings = Settings::read(host)?;
        match request.queue.as_str() {
            DELETED_PODS => collect::unscheduled(host, &request.key, settings.period),
            NODES => orphans::check(host, &request.key, settings.quarantine),
            QUARANTINE => orphans::collect(host, &request.key, settings.retry_period()),
            _ => {
                let results = [
                    collect::ended(host, settings.ended_pods),
                    collect::out_of_service(host),
                ];
                let errors = results.into_iter().filter_map(Result::err);
                Error::join(errors).map_or(Ok(Outcome::Done), Err)
            }
        }
    }
}

fn describe_with(settings: &Settings) -> Description {
    let description = describe(
        "pod-garbage-collector-controller",
        env!("CARGO_PKG_VERSION"),
    )
    .watch(
        watch::<Pod>()
            .when_at(&["metadata.deletionTimestamp"])
            .enqueue(
                Mapping::itself()
                    .deleting()
                    .on([DeltaType::Added, DeltaType::Modified])
                    .queue(DELETED_PODS)
                    .after(settings.period),
            ),
    )
    // A node that is deleted later enqueues itself. The delay combines the keys of all pods of a node.
    .watch(
        watch::<Pod>().when_at(&["spec.nodeName"]).enqueue(
            Mapping::named_in_cluster("spec.nodeName")
                .of(Node::KIND)
                .missing()
                .on([DeltaType::Added, DeltaType::Modified])
                .queue(NODES)
                .after(settings.period),
        ),
    )
    .watch(
        watch::<Node>().enqueue(Mapping::itself().on([DeltaType::Deleted]).queue(NODES)),
    )
    .index(BY_NODE, Pod::KIND, "spec.nodeName")
    .index(BY_PHASE, Pod::KIND, "status.phase")
    .index(BY_TAINT, Node::KIND, "spec.taints[*].key")
    // A failure is repeated by the next tick.
    .queue_with(Queue {
        max_retries: Some(0),
        ..queue(TICKS)
    })
    .queue_with(retrying(DELETED_PODS, settings.period))
    .queue(NODES)
    .queue_with(retrying(QUARANTINE, settings.retry_period()))
    .ticker_with(Ticker {
        key: "all".into(),
        queue: TICKS.into(),
        period_ms: millis(settings.period),
        config: PERIOD.into(),
    })
    .permission(Pod::KIND, ["delete"])
    .permission_on(Pod::KIND, "status", ["patch"])
    .permission(Node::KIND, ["get"])
    .metric(
        MetricType::Counter,
        delete::DELETED,
        &["namespace", "reason"],
        "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
    )
    .metric(
        MetricType::Counter,
        delete::FAILED,
        &["namespace", "reason"],
        "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
    )
    .concurrency(1);
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}

/// A queue whose failed keys are retried after this time.
fn retrying(name: &str, delay: Duration) -> Queue {
    Queue {
        base_delay_ms: millis(delay),
        max_delay_ms: millis(delay),
        qps: 0.0,
        burst: 0,
        ..queue(name)
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
