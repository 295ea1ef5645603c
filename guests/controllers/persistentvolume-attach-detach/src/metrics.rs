//! The metrics.
//!
//! Upstream: pkg/controller/volume/attachdetach/metrics/metrics.go.
//! Upstream: pkg/volume/util/metrics.go: OperationCompleteHook.

use std::collections::BTreeMap;
use std::time::Duration;

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;

use crate::decide::{Decider, Force};
use crate::disk::Disks;
use crate::observe::Observed;
use crate::operations::{Action, Operations};

/// The counter of detachments of volumes that a node may have used: `reason`.
pub const FORCED: &str = "attach_detach_controller_attachdetach_controller_forced_detaches";
/// The number of volumes: `plugin_name`, `state`.
pub const TOTAL: &str = "attachdetach_controller_total_volumes";
/// The number of volumes of pods: `node`, `volume_plugin`.
pub const IN_USE: &str = "storage_count_attachable_volumes_in_use";
/// The duration of operations in seconds: `volume_plugin`, `operation_name`, `status`, `migrated`.
pub const DURATION: &str = "storage_operation_duration_seconds";

const DESIRED: &str = "desired_state_of_world";
const ACTUAL: &str = "actual_state_of_world";
/// The name of the verification of a node in metrics, and of its plugin.
const VERIFICATION: [&str; 2] = ["<n/a>", "verify_volumes_are_attached_per_node"];
const SUCCESS: &str = "success";
const FAILURE: &str = "fail-unknown";
/// The bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];

/// Declares the metrics.
pub fn declare(description: Description) -> Description {
    description
        .metric(
            MetricType::Counter,
            FORCED,
            &["reason"],
            "Number of times the A/D Controller performed a forced detach",
        )
        .metric(
            MetricType::Sum,
            TOTAL,
            &["plugin_name", "state"],
            "Number of volumes in A/D Controller",
        )
        .metric(
            MetricType::Sum,
            IN_USE,
            &["node", "volume_plugin"],
            "Measure number of volumes in use",
        )
        .metric(
            MetricType::Histogram(BUCKETS.into()),
            DURATION,
            &["volume_plugin", "operation_name", "status", "migrated"],
            "Storage operation duration",
        )
}

/// Counts a detachment if it is forced.
pub fn count_forced(host: &Host, force: Option<Force>) {
    if let Some(force) = force {
        host.metrics().add(FORCED, &[force.name()], 1.0);
    }
}

/// Observes the end of the operation that is pending.
pub fn observe_end(
    decider: &Decider,
    observed: &Observed,
    volume: &str,
    action: Action,
    is_success: bool,
) {
    let Decider { host, disks, .. } = decider;
    let pending = Operations::pending(host, volume, &observed.name);
    let took = pending.map_or(Duration::ZERO, |one| one.age(host.now()));
    let label = disks.label_of(volume).unwrap_or_default();
    let held = observed.memory.volumes.get(volume);
    let is_migrated = held.is_some_and(|held| held.is_migrated)
        || observed.disk(volume).is_some_and(|disk| disk.is_migrated);
    let is_migrated = is_migrated.to_string();
    let status = if is_success { SUCCESS } else { FAILURE };
    let labels = [&*label, action.name(), status, &*is_migrated];
    host.metrics()
        .observe(DURATION, &labels, took.as_secs_f64());
}

/// Observes the verification of a node.
pub fn observe_verification(host: &Host, took: Duration) {
    let [plugin, operation] = VERIFICATION;
    let labels = [plugin, operation, SUCCESS, "false"];
    host.metrics()
        .observe(DURATION, &labels, took.as_secs_f64());
}

/// The numbers of volumes of a plugin.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    desired: u32,
    actual: u32,
    in_use: u32,
}

/// Counts the volumes of a node.
pub fn count(host: &Host, disks: &Disks, observed: &mut Observed) {
    let mut counts: BTreeMap<String, Counts> = { observed.memory.counted.iter() }
        .map(|label| (label.clone(), Counts::default()))
        .collect();
    let needed = observed.desired.volumes.keys();
    for volume in needed.filter(|volume| observed.wanted(volume).is_some()) {
        if let Some(label) = disks.label_of(volume) {
            counts.entry(label).or_default().desired += 1;
        }
    }
    for volume in observed.memory.volumes.keys() {
        if let Some(label) = disks.label_of(volume) {
            counts.entry(label).or_default().actual += 1;
        }
    }
    for (label, count) in &observed.desired.in_use {
        counts.entry(label.clone()).or_default().in_use = *count;
    }
    let metrics = host.metrics();
    for (label, of) in &counts {
        metrics.set(TOTAL, &[label, DESIRED], of.desired.into());
        metrics.set(TOTAL, &[label, ACTUAL], of.actual.into());
        metrics.set(IN_USE, &[&observed.name, label], of.in_use.into());
    }
    counts.retain(|_, of| of.desired + of.actual + of.in_use > 0);
    observed.memory.counted = counts.into_keys().collect();
}
