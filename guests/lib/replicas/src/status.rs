//! The status: counters, the failure condition, and the time of the next recount.
//!
//! Upstream: pkg/controller/replicaset/replica_set_utils.go: calculateStatus, NewReplicaSetCondition, GetCondition,
//! SetCondition, RemoveCondition.
//! Upstream: pkg/controller/controller_utils.go: FindMinNextPodAvailabilityCheck,
//! findMinNextPodAvailabilitySimpleCheck, nextPodAvailabilityCheck.

use std::time::Duration;

use flyball_sdk::{Labels, StringMap, Time};

use crate::scale::Failure;
use crate::views::{Condition, Pod, Set, Status};

/// The condition that pods can't be created or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The inputs of the status.
pub struct Known<'a> {
    /// The set's active pods before any were created or deleted.
    pub active: &'a [Pod],
    /// Number of pods being deleted; none if the status does not say.
    pub terminating: Option<usize>,
    /// The failure because of which pods could not be created or deleted.
    pub failure: Option<&'a Failure>,
    /// The time for which availability is computed.
    pub now: Time,
}

/// Returns the status of a set.
pub fn status(set: &Set, known: &Known) -> Status {
    let count =
        |holds: &dyn Fn(&Pod) -> bool| known.active.iter().filter(|pod| holds(pod)).count() as i32;
    Status {
        replicas: known.active.len() as i32,
        fully_labeled_replicas: count(&|pod| has_all(&pod.labels, &set.template.metadata.labels)),
        ready_replicas: count(&Pod::is_ready),
        available_replicas: count(&|pod| is_available(pod, set.min_ready_seconds, known.now)),
        terminating_replicas: known.terminating.map(|count| count as i32),
        observed_generation: set.meta.generation,
        conditions: conditions(&set.status.conditions, known.failure, known.now),
    }
}

/// Returns when the next ready pod becomes available; `None` if no ready pod is waiting for that.
/// Availability is computed for `status_time`, the time of the status, so that no pod is missed; the
/// result is relative to `now`.
pub fn next_availability(
    set: &Set,
    active: &[Pod],
    status: &Status,
    status_time: Time,
    now: Time,
) -> Option<Duration> {
    if set.min_ready_seconds == 0 || status.ready_replicas == status.available_replicas {
        return None;
    }
    let min_ready = Duration::from_secs(set.min_ready_seconds.into());
    let available = active
        .iter()
        .filter_map(Pod::ready_since)
        .map(|since| since + min_ready);
    let next = available.filter(|&at| at > status_time).min();
    // A ready pod whose condition has no time never becomes available. Check again after the same
    // time that other pods need.
    Some(next.map_or(min_ready, |at| at.since(now)))
}

fn is_available(pod: &Pod, min_ready_seconds: u32, now: Time) -> bool {
    let min_ready = Duration::from_secs(min_ready_seconds.into());
    let is_old_enough = || {
        pod.ready_since()
            .is_some_and(|since| since + min_ready <= now)
    };
    pod.is_ready() && (min_ready_seconds == 0 || is_old_enough())
}

fn has_all(labels: &impl Labels, wanted: &StringMap) -> bool {
    wanted
        .iter()
        .all(|(key, value)| labels.label(key) == Some(value))
}

/// The condition of the first failure is kept until a step succeeds: updating it with later
/// failures would change the status endlessly.
fn conditions(old: &[Condition], failure: Option<&Failure>, now: Time) -> Vec<Condition> {
    let is_ours = |condition: &&Condition| condition.condition_type == REPLICA_FAILURE;
    match failure {
        None => old
            .iter()
            .filter(|condition| !is_ours(condition))
            .cloned()
            .collect(),
        Some(_) if old.iter().any(|condition| is_ours(&condition)) => old.to_vec(),
        Some(Failure { reason, message }) => {
            let ours = Condition {
                condition_type: REPLICA_FAILURE.into(),
                status: "True".into(),
                last_transition_time: Some(now.to_second()),
                reason: (*reason).into(),
                message: message.clone(),
            };
            old.iter().cloned().chain([ours]).collect()
        }
    }
}
