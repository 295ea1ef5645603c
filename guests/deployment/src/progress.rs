//! What the status says: the numbers, whether enough pods are available, and whether the rollout
//! makes progress.

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
/// Also the reason of an event.
pub const CREATE_FAILED: &str = "ReplicaSetCreateError";
const UPDATED: &str = "ReplicaSetUpdated";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// The steps on the way that the condition `Progressing` tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A new ReplicaSet of this name was there already.
    Found(&'a str),
    /// A new ReplicaSet of this name was made.
    Created(&'a str),
    /// No new ReplicaSet could be made, as this sentence says.
    CreateFailed(&'a str),
}

/// Tells of a step, if there is a deadline to be met.
pub fn note(deployment: &mut Deployment, step: Step, now: Time) {
    if deployment.progress_deadline().is_none() {
        return;
    }
    let (status, reason, message) = match step {
        // Only where nothing was said before: what is known is better.
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

/// Tells that the Deployment was paused or resumed: the time in between must not count as a lack of
/// progress. A missed deadline is not covered up.
pub fn note_pause(deployment: &mut Deployment, now: Time) {
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

/// The status while nothing rolls: what the ReplicaSets count, and whether enough pods are
/// available.
pub fn counted(deployment: &Deployment, sets: &Sets, now: Time) -> Status {
    let mut status = Status {
        observed_generation: deployment.meta.generation,
        conditions: deployment.status.conditions.clone(),
        collision_count: deployment.status.collision_count,
        ..sets.counts()
    };
    let (answer, reason, message) = if status.available_replicas >= min_available(deployment) {
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
    status.set(as_of(now, AVAILABLE, answer, reason, message));
    status
}

/// The status during a rollout: as [`counted`], with the progress since the last one and the
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

/// Whether the rollout was complete before, and all pods are still of the present template: then
/// pods that come and go are no rollout.
fn was_complete(deployment: &Deployment, status: &Status) -> bool {
    status.replicas == status.updated_replicas && deployment.status.reason(PROGRESSING) == COMPLETE
}

fn estimate(deployment: &Deployment, sets: &Sets, status: &mut Status, deadline: i64, now: Time) {
    let subject = match &sets.new {
        Some(new) => format!("ReplicaSet \"{}\"", new.meta.name),
        None => format!("Deployment \"{}\"", deployment.meta.name),
    };
    let condition = |answer, reason, what| {
        as_of(
            now,
            PROGRESSING,
            answer,
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

/// The time until the deadline is missed, counted from the last sign of progress; zero once it is.
/// None where time alone changes nothing: nothing was said of progress, the last rollout is
/// complete, or the deadline was missed long ago.
fn ends_in(status: &Status, deadline: i64, now: Time) -> Option<Duration> {
    let condition = status
        .condition(PROGRESSING)
        .filter(|known| ![COMPLETE, TIMED_OUT].contains(&known.reason.as_str()))?;
    let deadline = Duration::from_secs(u64::try_from(deadline).unwrap_or(0));
    let end = condition.last_update_time.unwrap_or_default() + deadline;
    // The deadline is missed after its last instant, not at it.
    Some(if end < now {
        Duration::ZERO
    } else {
        end.since(now).max(Duration::from_nanos(1))
    })
}

/// When to look again whether the rollout has missed its deadline: a second after it, because the
/// clocks of who writes the condition and who reads it may differ.
pub fn look_again(deployment: &Deployment, now: Time) -> Option<Duration> {
    let deadline = deployment.progress_deadline()?;
    if deployment.is_complete(&deployment.status) {
        return None;
    }
    Some(ends_in(&deployment.status, deadline, now)? + Duration::from_secs(1))
}

/// The failure of a ReplicaSet as a condition of the Deployment; that of the new one goes before
/// the old ones'.
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
