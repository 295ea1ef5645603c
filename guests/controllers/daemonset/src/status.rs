//! The status: its counters, its writes, and the time of the next recount.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: updateDaemonSetStatus, storeDaemonSetStatus.
//! Upstream: pkg/controller/controller_utils.go: FindMinNextPodAvailabilityCheck,
//! findMinNextPodAvailabilitySimpleCheck, nextPodAvailabilityCheck.

use std::time::Duration;

use flyball_sdk::debug;
use flyball_sdk::prelude::*;

use crate::observed::{ByNode, Observed, sort};
use crate::views::{DaemonSet, Pod, Presence, Status};

/// Returns the status of a DaemonSet with these pods.
pub fn status(observed: &Observed, by_node: &ByNode) -> Status {
    let set = observed.set;
    let mut status = Status {
        observed_generation: set.meta.generation,
        collision_count: set.status.collision_count,
        conditions: set.status.conditions.clone(),
        ..Status::default()
    };
    for (node, fit) in observed.fits {
        let pods = by_node.get(node.as_str());
        if !fit.should_run() {
            status.number_misscheduled += i64::from(pods.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pods.and_then(|pods| first(pods)) else {
            continue;
        };
        status.current_number_scheduled += 1;
        status.number_ready += i64::from(pod.is_ready());
        status.number_available += i64::from(observed.is_available(pod));
        status.updated_number_scheduled += i64::from(observed.is_updated(pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// Returns the pod that is counted of a node.
fn first<'a>(pods: &[&'a Pod]) -> Option<&'a Pod> {
    let mut pods = pods.to_vec();
    sort(&mut pods);
    pods.first().copied()
}

/// Writes the status if it has changed. If that fails, usually because the DaemonSet has changed since it
/// was read, it tries once more on the latest version. That is correct, because the status has its own
/// observed generation.
///
/// # Errors
/// The second write failed, or the DaemonSet was deleted.
pub fn write(host: &Host, set: &DaemonSet, status: &Status) -> Result<(), Error> {
    let is_observed = set.status.observed_generation >= set.meta.generation;
    if is_observed && status.has_counters_of(&set.status) {
        return Ok(());
    }
    let Err(first) = host.update_status(DaemonSet::KIND, &set.meta, status) else {
        return Ok(());
    };
    let key = set.meta.key();
    debug!(host, "updating the status of {key} failed: {first}");
    let newest = host
        .live()
        .get::<Presence>(&key.namespace, &key.name)?
        .filter(|newest| newest.meta.uid == set.meta.uid)
        .ok_or_else(|| Error::failed(format!("{key} was deleted")))?;
    let status = Status {
        collision_count: newest.status.collision_count,
        conditions: newest.status.conditions,
        ..status.clone()
    };
    host.update_status(DaemonSet::KIND, &newest.meta, &status)?;
    Ok(())
}

/// Returns when the next ready pod becomes available; `None` if no ready pod is waiting for that. The
/// result is relative to `now`; availability was computed for the time of `observed`.
pub fn next_availability(observed: &Observed, by_node: &ByNode, now: Time) -> Option<Duration> {
    let set = observed.set;
    let waiting = by_node
        .values()
        .flatten()
        .filter(|pod| pod.is_ready() && !observed.is_available(pod));
    // A ready pod whose condition has no time never becomes available. Check again after the same time
    // that other pods need.
    let wait = |pod: &&Pod| {
        pod.ready_since.map_or(set.min_ready(), |since| {
            (since + set.min_ready()).since(now)
        })
    };
    waiting.map(wait).min()
}
