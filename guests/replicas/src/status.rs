//! The status: what is counted, what is said of failures, and when it must be counted again.

use std::time::Duration;

use flyball_sdk::{Labels, StringMap, Time};

use crate::flavor::Flavor;
use crate::scale::Failure;
use crate::views::{Condition, Pod, Set, Status};

/// The type of the condition that says that pods can't be made or deleted.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What a reconcile knows when it comes to the status.
pub struct Known<'a> {
    /// The set's active pods, as they were before it made or deleted any.
    pub active: &'a [Pod],
    /// How many more are being deleted.
    pub terminating: usize,
    /// Why it could not make or delete them.
    pub failure: Option<&'a Failure>,
    /// The time at which availability is judged.
    pub now: Time,
}

/// The status of a set.
pub fn status(flavor: &Flavor, set: &Set, known: &Known) -> Status {
    let count =
        |holds: &dyn Fn(&Pod) -> bool| known.active.iter().filter(|pod| holds(pod)).count() as i32;
    Status {
        replicas: known.active.len() as i32,
        fully_labeled_replicas: count(&|pod| has_all(&pod.labels, &set.template.metadata.labels)),
        ready_replicas: count(&Pod::is_ready),
        available_replicas: count(&|pod| is_available(pod, set.min_ready_seconds, known.now)),
        terminating_replicas: flavor
            .counts_terminating
            .then_some(known.terminating as i32),
        observed_generation: set.meta.generation,
        conditions: conditions(&set.status.conditions, known.failure, known.now),
    }
}

/// When the next ready pod becomes available; none while no pod that is ready waits for that.
/// Judged as of `judged`, when the status was, so that no pod falls between; counted from `now`.
pub fn next_availability(
    set: &Set,
    active: &[Pod],
    status: &Status,
    judged: Time,
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
    let next = available.filter(|&at| at > judged).min();
    // A pod that is ready since nobody knows when never becomes available: look again, as often as
    // it could have.
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

/// The first failure is told until all is well again; what comes after it would only make the
/// status change without end.
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
