//! Decides whether a Job has succeeded or failed.
//!
//! A verdict is written twice. It is first written as `SuccessCriteriaMet` or `FailureTarget`, and is then final,
//! regardless of the remaining pods. When all pods have ended and are counted, it is written as `Complete` or `Failed`.
//!
//! Upstream: pkg/controller/job/job_controller.go: syncJob, newFailureCondition, newSuccessCondition,
//! newFailedConditionForFailureTarget, pastBackoffLimitOnFailure, pastActiveDeadline, newCondition, getFailJobMessage, ensureJobConditionStatus.
//! Upstream: pkg/controller/job/success_policy.go: hasSuccessCriteriaMetCondition.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{Time, condition};

use crate::failure_policy::{self, Action};
use crate::indexes::Indexes;
use crate::observed::Observed;
use crate::progress::Progress;
use crate::success_policy;
use crate::tally::Tally;
use crate::views::{Job, Pod, Status};

/// The condition of a job that will complete.
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
/// The condition of a job that will fail.
pub const FAILURE_TARGET: &str = "FailureTarget";

/// Whether a job succeeds or fails, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True if the job succeeds, false if it fails.
    pub is_success: bool,
    /// The condition's reason.
    pub reason: String,
    /// The condition's message.
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

    /// The verdict of a job that has reached all completions.
    pub fn completed() -> Self {
        Self::success(
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
    }

    /// The type of the condition that is written first.
    pub fn interim_type(&self) -> &'static str {
        if self.is_success {
            SUCCESS_CRITERIA_MET
        } else {
            FAILURE_TARGET
        }
    }

    /// The type of the condition that is written at the end.
    pub fn final_type(&self) -> &'static str {
        if self.is_success {
            "Complete"
        } else {
            "Failed"
        }
    }

    /// The condition of this type with the verdict's reason and message.
    pub fn condition(&self, condition_type: &str, now: Time) -> Condition {
        stamped(condition_type, "True", &self.reason, &self.message, now)
    }
}

/// Returns the verdict on a job before any pod is created or deleted. An earlier verdict is final.
/// Failures take precedence over success.
pub fn judge(observed: &Observed) -> Option<Verdict> {
    let Observed {
        job,
        pods,
        tally,
        now,
        ..
    } = observed;
    let indexes = observed.indexes.as_ref();
    earlier(&job.status)
        .or_else(|| failed_by_policy(job, pods))
        .or_else(|| past_backoff_limit(job, pods, tally))
        .or_else(|| past_deadline(job, *now))
        .or_else(|| too_many_failed_indexes(job, indexes?))
        .or_else(|| succeeded_by_policy(job, indexes?))
}

/// Returns the verdict that can be written after the step's writes: `before` only if all active
/// pods are deleted, because a remaining pod could still change the counters.
pub fn after(observed: &Observed, before: Option<Verdict>, progress: &Progress) -> Option<Verdict> {
    let active = progress.active_after(&observed.tally);
    match before {
        Some(verdict) => (active == 0).then_some(verdict),
        None => is_complete(observed.job, observed.succeeded(), active).then(Verdict::completed),
    }
}

/// Whether all completions are reached and no pod is active. A job that sets no completions is
/// complete after one success when the other pods have ended.
fn is_complete(job: &Job, succeeded: i64, active: usize) -> bool {
    active == 0 && succeeded >= job.completions.map_or(1, i64::from)
}

/// Time until the active deadline; `None` without a deadline, and while the job is suspended or not
/// started.
pub fn until_deadline(job: &Job, now: Time) -> Option<Duration> {
    let seconds = job.active_deadline_seconds.filter(|_| !job.suspend)?;
    let started = job.status.start_time?;
    Some((started + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))).since(now))
}

/// Sets a condition in place. A missing condition is not added with status `False`. Returns whether
/// anything changed; if so, both of the condition's times are updated.
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

/// Returns a condition with both of its times set to `now`.
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

fn earlier(status: &Status) -> Option<Verdict> {
    let true_condition = |condition_type| {
        condition::get(&status.conditions, condition_type).filter(|condition| condition.is_true())
    };
    let success =
        true_condition(SUCCESS_CRITERIA_MET).map(|met| Verdict::success(&met.reason, &met.message));
    success.or_else(|| {
        true_condition(FAILURE_TARGET)
            .map(|target| Verdict::failure(&target.reason, &target.message))
    })
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

/// Whether containers restarted in place (`OnFailure`) have restarted too often. A backoff limit of
/// 0 allows no restart.
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
