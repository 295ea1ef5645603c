//! The controller's description: its watches, queue, permissions and settings.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: NewHorizontalController, updateHPA, enqueueHPA, deleteHPA.
//! Upstream: pkg/controller/podautoscaler/rate_limiters.go.

use std::time::Duration;

use flyball_sdk::describe::{self, Queue};
use flyball_sdk::prelude::*;

use crate::monitor;
use crate::settings::{GATES, KEYS, Settings};
use crate::sources::{CUSTOM, EXTERNAL, RESOURCE};
use crate::views::{Autoscaler, Named, Pod};

/// The queue of autoscalers.
pub const QUEUE: &str = "horizontalpodautoscaler";

/// Returns the description under these settings.
///
/// A new autoscaler, and a change of its spec, is reconciled at once. Before Kubernetes 1.37, it was not. Any other change
/// enqueues it a period later, as every reconcile does. If several times are pending, the earliest one holds. So each
/// autoscaler is reconciled once in each period.
pub fn describe(settings: &Settings) -> Description {
    let period = settings.sync_period;
    let description = describe::describe(
        "horizontal-pod-autoscaler-controller",
        env!("CARGO_PKG_VERSION"),
    )
    .watch(autoscalers(settings))
    .watch(specs(settings))
    .watch(describe::watch::<Pod>())
    .queue_with(queue(period))
    .import("discovery")
    .import("raw")
    .permission(Autoscaler::KIND, ["get"])
    .permission_on(Autoscaler::KIND, "status", ["update"])
    .permission_on("*", "scale", ["get", "update"])
    .permission(&format!("{RESOURCE}/*"), ["list"])
    .permission_on(&format!("{CUSTOM}/*"), "*", ["get"])
    .permission(&format!("{EXTERNAL}/*"), ["list"])
    .concurrency(5)
    .event_source("horizontal-pod-autoscaler")
    .emulated_version()
    .memo_schema(1);
    let description = KEYS
        .iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        });
    let description = GATES.iter().fold(description, |description, (gate, on)| {
        description.feature_gate(gate, *on)
    });
    monitor::declare(description)
}

/// The metadata is cached whole, because a write of the status carries it.
fn autoscalers(settings: &Settings) -> Watch {
    let added = Mapping::itself().on([DeltaType::Added]);
    let added = match settings.since_1_37 {
        true => added,
        false => added.after(settings.sync_period),
    };
    let changed = Mapping::itself().on([DeltaType::Modified]);
    watch::<Autoscaler>()
        .and_view::<Named>()
        .fields(&["metadata"])
        .enqueue(added)
        .enqueue(changed.after(settings.sync_period))
}

/// The changes that count at once.
fn specs(settings: &Settings) -> Watch {
    let changed = Mapping::itself().on([DeltaType::Modified]);
    let watch = watch::<Autoscaler>().when(Change::Generation);
    match settings.generation {
        true => watch.enqueue(changed),
        false => watch,
    }
}

/// A failed reconcile waits as long as any other.
fn queue(period: Duration) -> Queue {
    let period = u32::try_from(period.as_millis()).unwrap_or(u32::MAX);
    Queue {
        base_delay_ms: period,
        max_delay_ms: period,
        qps: 0.0,
        ..describe::queue(QUEUE)
    }
}
