//! Whether a Job has succeeded or failed.
//!
//! A verdict is said twice. At once, as `SuccessCriteriaMet` or `FailureTarget`: from then on it
//! stands, whatever happens to pods that are still there. And as `Complete` or `Failed`, when all
//! pods have ended and are counted.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{Time, condition};

use crate::failure_policy::{self, Action};
use crate::indexes::Indexes;
use crate::success_policy;
use crate::tally::Tally;
use crate::views::{Job, Pod, Status};

/// The condition of a job that will complete.
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
/// The condition of a job that will fail.
pub const FAILURE_TARGET: &str = "FailureTarget";

/// How a job ends, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it completes; else it fails.
    pub is_success: bool,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Verdict {
    fn success(reason: &str, message: impl Into<String>) -> Self {
        Self {
            is_success: true,
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self {
            is_success: false,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// All completions are reached.
    pub fn completed() -> Self {
        Self::success(
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
    }

    /// The condition that says it at once.
    pub fn interim_type(&self) -> &'static str {
        if self.is_success {
            SUCCESS_CRITERIA_MET
        } else {
            FAILURE_TARGET
        }
    }

    /// The condition that says it at the end.
    pub fn final_type(&self) -> &'static str {
        if self.is_success {
            "Complete"
        } else {
            "Failed"
        }
    }

    /// A condition that says it.
    pub fn condition(&self, condition_type: &str, now: Time) -> Condition {
        stamped(condition_type, "True", &self.reason, &self.message, now)
    }
}

/// The verdict on a job, before any pod is made or deleted. What was said before stands; failures
/// go before success.
pub fn judge(
    job: &Job,
    pods: &[Pod],
    tally: &Tally,
    indexes: Option<&Indexes>,
    now: Time,
) -> Option<Verdict> {
    said(&job.status)
        .or_else(|| failed_by_policy(job, pods))
        .or_else(|| past_backoff_limit(job, pods, tally))
        .or_else(|| past_deadline(job, now))
        .or_else(|| too_many_failed_indexes(job, indexes?))
        .or_else(|| succeeded_by_policy(job, indexes?))
}

/// Whether all completions are reached, with so many pods active. A job without a number of
/// completions is complete when a pod has succeeded and the others have ended.
pub fn is_complete(job: &Job, succeeded: i64, active: usize) -> bool {
    active == 0 && succeeded >= job.completions.map_or(1, i64::from)
}

/// How long until the deadline passes; none if there is none, or while it does not count.
pub fn until_deadline(job: &Job, now: Time) -> Option<Duration> {
    let seconds = job.active_deadline_seconds.filter(|_| !job.suspend)?;
    let started = job.status.start_time?;
    Some((started + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))).since(now))
}

/// Sets a condition of a job where it stands. One that is not there and is to be false stays away.
/// Answers whether anything changed; then both of its times do.
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    match conditions
        .iter_mut()
        .find(|condition| condition.condition_type == new.condition_type)
    {
        Some(old)
            if (&old.status, &old.reason, &old.message)
                == (&new.status, &new.reason, &new.message) =>
        {
            false
        }
        Some(old) => {
            *old = new;
            true
        }
        None if new.status == "False" => false,
        None => {
            conditions.push(new);
            true
        }
    }
}

/// A condition with both of its times.
pub fn stamped(
    condition_type: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Time,
) -> Condition {
    let now = Some(now.to_second());
    let condition = Condition::new(condition_type, status, reason, message);
    Condition {
        last_probe_time: now,
        last_transition_time: now,
        ..condition
    }
}

fn said(status: &Status) -> Option<Verdict> {
    let said = |condition_type| {
        condition::get(&status.conditions, condition_type).filter(|said| said.is_true())
    };
    let success =
        said(SUCCESS_CRITERIA_MET).map(|said| Verdict::success(&said.reason, &said.message));
    success
        .or_else(|| said(FAILURE_TARGET).map(|said| Verdict::failure(&said.reason, &said.message)))
}

fn failed_by_policy(job: &Job, pods: &[Pod]) -> Option<Verdict> {
    let policy = job.pod_failure_policy.as_ref()?;
    { pods.iter().filter(|pod| pod.has_failed(job)) }.find_map(|pod| {
        match failure_policy::action(Some(policy), pod) {
            Some(Action::FailJob(message)) => Some(Verdict::failure("PodFailurePolicy", message)),
            _ => None,
        }
    })
}

fn past_backoff_limit(job: &Job, pods: &[Pod], tally: &Tally) -> Option<Verdict> {
    let is_past = tally.failed > job.backoff_limit().into() || restarted_too_often(job, pods);
    is_past.then(|| {
        Verdict::failure(
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
    })
}

/// Whether containers that are restarted where they are have been so too often. A limit of 0 allows
/// none.
fn restarted_too_often(job: &Job, pods: &[Pod]) -> bool {
    let runs = |pod: &&Pod| matches!(pod.phase.as_str(), "Running" | "Pending");
    let restarts = || {
        pods.iter()
            .filter(runs)
            .map(Pod::restarts)
            .fold(0, i32::saturating_add)
    };
    job.restarts_on_failure() && restarts() >= job.backoff_limit().max(1)
}

fn past_deadline(job: &Job, now: Time) -> Option<Verdict> {
    let is_past = until_deadline(job, now)?.is_zero();
    is_past.then(|| {
        Verdict::failure(
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        )
    })
}

fn too_many_failed_indexes(job: &Job, indexes: &Indexes) -> Option<Verdict> {
    let failures = indexes.failures();
    if job
        .max_failed_indexes
        .is_some_and(|most| failures > most.into())
    {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Verdict::failure("MaxFailedIndexesExceeded", message));
    }
    let are_settled = failures > 0 && failures + indexes.succeeded.total() >= job.indexes();
    are_settled.then(|| Verdict::failure("FailedIndexes", "Job has failed indexes"))
}

fn succeeded_by_policy(job: &Job, indexes: &Indexes) -> Option<Verdict> {
    let met = success_policy::met(
        job.success_policy.as_ref(),
        job.indexes(),
        &indexes.succeeded,
    )?;
    Some(Verdict::success("SuccessPolicy", met))
}
