//! The status: counters, revisions, and the time of the next count.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: computeReplicaStatus, updateStatus.
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: completeUpdate, inconsistentStatus.
//! Upstream: pkg/controller/controller_utils.go: FindMinNextPodAvailabilityCheck.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::views::{Pod, StatefulSet, Status};

/// Counts these pods.
pub fn counted<'a>(
    set: &StatefulSet,
    pods: impl IntoIterator<Item = &'a Pod>,
    revisions: Status,
    now: Time,
) -> Status {
    let mut status = Status {
        observed_generation: set.meta.generation,
        ..revisions
    };
    for pod in pods {
        let is_of = |revision: &str| !pod.is_terminating() && pod.revision() == revision;
        let is_available = pod.is_ready() && pod.is_available(set.min_ready(), now);
        status.replicas += 1;
        status.ready_replicas += i32::from(pod.is_ready());
        status.available_replicas += i32::from(is_available);
        status.current_replicas += i32::from(is_of(&status.current_revision));
        status.updated_replicas += i32::from(is_of(&status.update_revision));
    }
    status
}

/// Completes an update: when all pods are ready and have the update revision, it becomes the current one. Returns whether
/// it is complete. Before Kubernetes 1.37, only a rolling update was completed.
pub fn complete(set: &StatefulSet, status: &mut Status, is_of_any_strategy: bool) -> bool {
    let counts = [
        status.updated_replicas,
        status.ready_replicas,
        status.replicas,
    ];
    let is_complete = (is_of_any_strategy || set.is_rolling())
        && counts.iter().all(|&count| count as usize == set.wanted());
    if is_complete {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    is_complete
}

/// Returns when the next ready pod becomes available; `None` if no ready pod is waiting for that.
/// Availability is computed for `status_time`, the time of the status, so that no pod is missed; the
/// result is relative to `now`.
pub fn next_availability(
    set: &StatefulSet,
    pods: &[Pod],
    status: &Status,
    status_time: Time,
    now: Time,
) -> Option<Duration> {
    let min_ready = set.min_ready();
    if min_ready.is_zero() || status.ready_replicas == status.available_replicas {
        return None;
    }
    let available = pods.iter().filter_map(|pod| pod.available_at(min_ready));
    let next = available.filter(|&at| at > status_time).min();
    // A ready pod whose condition has no time never becomes available. Check again after the same
    // time that other pods need.
    Some(next.map_or(min_ready, |at| at.since(now)))
}

#[cfg(test)]
mod tests;
