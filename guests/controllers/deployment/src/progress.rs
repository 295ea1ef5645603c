//! The Deployment's status: the counters, whether enough pods are available, and whether the
//! rollout makes progress.
//!
//! Upstream: pkg/controller/deployment/progress.go: syncRolloutStatus, getReplicaFailures, requeueStuckDeployment.
//! Upstream: pkg/controller/deployment/sync.go: checkPausedConditions, calculateStatus.
//! Upstream: pkg/controller/deployment/util/deployment_util.go: DeploymentComplete, DeploymentProgressing,
//! DeploymentTimedOut, ReplicaSetToDeploymentCondition.

use std::time::Duration;

use flyball_sdk::Time;
use flyball_sdk::condition::Condition;

use crate::bounds::min_available;
use crate::condition::{AVAILABLE, PROGRESSING, REPLICA_FAILURE, as_of};
use crate::sets::Sets;
use crate::views::{Deployment, Status};

const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";
const FOUND: &str = "FoundNewReplicaSet";
const CREATED: &str = "NewReplicaSetCreated";
/// The condition's reason; also the reason of an event.
pub const CREATE_FAILED: &str = "ReplicaSetCreateError";
const UPDATED: &str = "ReplicaSetUpdated";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// Steps that the condition `Progressing` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// An existing ReplicaSet with this name has the new template.
    Found(&'a str),
    /// The new ReplicaSet with this name was created.
    Created(&'a str),
    /// The new ReplicaSet could not be created; the message says why.
    CreateFailed(&'a str),
}

/// Records a step in the condition, if the Deployment has a progress deadline.
pub fn record(deployment: &mut Deployment, step: Step, now: Time) {
    if deployment.progress_deadline().is_none() {
        return;
    }
    let (status, reason, message) = match step {
        // Any earlier report of progress is more specific.
        Step::Found(_) if deployment.status.condition(PROGRESSING).is_some() => return,
        Step::Found(name) => ("True", FOUND, format!("Found new replica set \"{name}\"")),
        Step::Created(name) => (
            "True",
            CREATED,
            format!("Created new replica set \"{name}\""),
        ),
        Step::CreateFailed(message) => ("False", CREATE_FAILED, message.to_owned()),
    };
    deployment
        .status
        .set(as_of(now, PROGRESSING, status, reason, &message));
}

/// Records that the Deployment was paused or resumed, so that the time in between does not count
/// towards the progress deadline. A missed deadline stays reported.
pub fn record_pause(deployment: &mut Deployment, now: Time) {
    let reason = deployment.status.reason(PROGRESSING);
    if deployment.progress_deadline().is_none() || reason == TIMED_OUT {
        return;
    }
    let (reason, message) = match (deployment.paused, reason == PAUSED) {
        (true, false) => (PAUSED, "Deployment is paused"),
        (false, true) => (RESUMED, "Deployment is resumed"),
        _ => return,
    };
    deployment
        .status
        .set(as_of(now, PROGRESSING, "Unknown", reason, message));
}

/// Returns the status outside a rollout: the ReplicaSets' counters and the `Available` condition.
pub fn counted(deployment: &Deployment, sets: &Sets, now: Time) -> Status {
    let mut status = Status {
        observed_generation: deployment.meta.generation,
        conditions: deployment.status.conditions.clone(),
        collision_count: deployment.status.collision_count,
        ..sets.counts()
    };
    let (status_value, reason, message) = if status.available_replicas >= min_available(deployment)
    {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    status.set(as_of(now, AVAILABLE, status_value, reason, message));
    status
}

/// Returns the status during a rollout: [`counted`], plus the `Progressing` condition and the
/// ReplicaSets' failures.
pub fn rolled(deployment: &Deployment, sets: &Sets, now: Time) -> Status {
    let mut status = counted(deployment, sets, now);
    match deployment.progress_deadline() {
        None => status.remove(PROGRESSING),
        Some(_) if was_complete(deployment, &status) => {}
        Some(deadline) => estimate(deployment, sets, &mut status, deadline, now),
    }
    match failure(sets) {
        Some(failure) => status.set(failure),
        None => status.remove(REPLICA_FAILURE),
    }
    status
}

/// Whether the rollout was complete before and all pods still have the current template. Pods that
/// are then lost or added are not a rollout.
fn was_complete(deployment: &Deployment, status: &Status) -> bool {
    status.replicas == status.updated_replicas && deployment.status.reason(PROGRESSING) == COMPLETE
}

fn estimate(deployment: &Deployment, sets: &Sets, status: &mut Status, deadline: i64, now: Time) {
    let subject = match &sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", new.meta.name),
        None => format!("Deployment \"{}\"", deployment.meta.name),
    };
    let condition = |status_value, reason, what| {
        as_of(
            now,
            PROGRESSING,
            status_value,
            reason,
            &format!("{subject} {what}"),
        )
    };
    if deployment.is_complete(status) {
        status.set(condition("True", COMPLETE, "has successfully progressed."));
    } else if has_progressed(&deployment.status, status) {
        status.replace(condition("True", UPDATED, "is progressing."));
    } else if ends_in(&deployment.status, deadline, now).is_some_and(|left| left.is_zero()) {
        status.set(condition("False", TIMED_OUT, "has timed out progressing."));
    }
}

/// Whether there are more updated, ready or available pods than before, or fewer old ones.
fn has_progressed(before: &Status, after: &Status) -> bool {
    after.updated_replicas > before.updated_replicas
        || after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

/// Returns the time until the deadline, counted from the last progress; zero if it is missed.
/// `None` if the deadline does not apply: no progress was recorded, the last rollout is complete,
/// or the missed deadline is already reported.
fn ends_in(status: &Status, deadline: i64, now: Time) -> Option<Duration> {
    let condition = status
        .condition(PROGRESSING)
        .filter(|known| ![COMPLETE, TIMED_OUT].contains(&known.reason.as_str()))?;
    let deadline = Duration::from_secs(u64::try_from(deadline).unwrap_or(0));
    let end = condition.last_update_time.unwrap_or_default() + deadline;
    // The deadline is missed only after its last instant.
    Some(if end < now {
        Duration::ZERO
    } else {
        end.since(now).max(Duration::from_nanos(1))
    })
}

/// Returns when to check the deadline again: a rollout that is stuck causes no delta that would wake the Deployment
/// (kubernetes/kubernetes#34458). It is one second after the deadline, because the time of the condition has whole
/// seconds, and because the clock that wrote it and the clock that reads it may differ (kubernetes/kubernetes#39785).
///
/// With a deadline of 10 minutes, and a condition that was last updated 3 minutes ago, it returns 7 minutes and 1
/// second.
pub fn requeue_after(deployment: &Deployment, now: Time) -> Option<Duration> {
    let deadline = deployment.progress_deadline()?;
    if deployment.is_complete(&deployment.status) {
        return None;
    }
    Some(ends_in(&deployment.status, deadline, now)? + Duration::from_secs(1))
}

/// Returns a ReplicaSet's failure as a condition of the Deployment. The new ReplicaSet's failure
/// takes precedence over the old ones'.
fn failure(sets: &Sets) -> Option<Condition> {
    let conditions = sets
        .new
        .iter()
        .chain(&sets.old)
        .flat_map(|set| &set.status.conditions);
    let failure = conditions
        .into_iter()
        .find(|condition| condition.condition_type == REPLICA_FAILURE)?;
    Some(Condition {
        last_update_time: failure.last_transition_time,
        ..failure.clone()
    })
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
