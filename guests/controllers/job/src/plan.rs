//! Chooses the next step for the pods of a Job.
//!
//! Upstream: pkg/controller/job/job_controller.go: manageJob, activePodsForRemoval, getPodCreationInfoForIndependentIndexes.

use std::time::Duration;

use crate::backoff;
use crate::indexes;
use crate::observed::Observed;
use crate::rank;
use crate::verdict::Verdict;
use crate::views::{Job, Pod};

/// The value of the metrics' `action` label if no pods were planned.
pub const UNPLANNED: &str = "reconciling";

/// The next step: either pods are created or they are deleted. Deleting comes first.
#[derive(Debug)]
pub enum Step<'p> {
    /// The job ends: deletes its active pods. They keep the finalizer, so that they are counted.
    End(Vec<&'p Pod>),
    /// The job is being deleted: its pods are left to the garbage collector.
    Leave,
    /// The number of pods is right.
    Stay,
    /// Pods are needed, but the backoff has not passed yet.
    Wait(Duration),
    /// Creates one pod per element; the element is the pod's index if the job has indexes.
    Create(Vec<Option<i64>>),
    /// Deletes these pods, which are not counted as failures.
    Delete(Vec<&'p Pod>),
}

impl Step<'_> {
    /// The value of the metrics' `action` label.
    pub fn action(&self) -> &'static str {
        match self {
            Self::End(_) | Self::Leave => UNPLANNED,
            Self::Stay => "tracking",
            Self::Wait(_) | Self::Create(_) => "pods_created",
            Self::Delete(_) => "pods_deleted",
        }
    }
}

/// Chooses the step of a job with this verdict.
pub fn step<'p>(observed: &Observed<'p>, verdict: Option<&Verdict>) -> Step<'p> {
    let Observed {
        job,
        tally,
        settings,
        ..
    } = observed;
    if verdict.is_some() {
        return Step::End(tally.active.clone());
    }
    if job.meta.is_deleting() {
        return Step::Leave;
    }
    let active = tally.active.len();
    if job.suspend {
        return Step::Delete(to_delete(job, &tally.active, active));
    }
    let wanted = wanted(job, observed.succeeded(), active);
    let mut to_delete = to_delete(job, &tally.active, active.saturating_sub(wanted));
    if !to_delete.is_empty() {
        to_delete.truncate(settings.max_pod_create_delete_per_sync);
        return Step::Delete(to_delete);
    }
    let waited_for = if job.replaces_only_ended() {
        tally.terminating
    } else {
        0
    };
    match wanted.saturating_sub(active + waited_for) {
        0 => Step::Stay,
        missing => create(
            observed,
            missing.min(settings.max_pod_create_delete_per_sync),
        ),
    }
}

/// Number of pods that should be active: at most the number of remaining completions. If the job
/// sets no completions, no pod is created after the first success.
fn wanted(job: &Job, succeeded: i64, active: usize) -> usize {
    match job.completions {
        None if succeeded > 0 => active,
        None => job.parallelism(),
        Some(completions) => {
            let left = i64::from(completions) - succeeded;
            job.parallelism().min(usize::try_from(left).unwrap_or(0))
        }
    }
}

/// Creates pods, or waits for the backoff of the whole job or, with a backoff limit per index, of each index.
fn create<'p>(observed: &Observed<'p>, missing: usize) -> Step<'p> {
    let Observed {
        job, settings, now, ..
    } = *observed;
    let wait = match job.backoff_limit_per_index {
        Some(_) => Duration::ZERO,
        None => observed.record.wait(settings, now),
    };
    if !wait.is_zero() {
        return Step::Wait(wait.max(settings.sync_batch_period));
    }
    let Some(indexes) = &observed.indexes else {
        return Step::Create(vec![None; missing]);
    };
    let pending = indexes.pending(job, observed.pods, missing);
    let wait =
        |index: i64| backoff::wait_of_index(indexes.awaiting.get(&index).copied(), settings, now);
    let (ready, later): (Vec<i64>, Vec<i64>) = pending
        .into_iter()
        .partition(|index| wait(*index).is_zero());
    match later.into_iter().map(wait).min() {
        Some(wait) if ready.is_empty() => Step::Wait(wait.max(settings.sync_batch_period)),
        _ => Step::Create(ready.into_iter().map(Some).collect()),
    }
}

/// Returns the active pods to delete. For an Indexed Job these are the pods without a valid index
/// and all but the best pod of each index; then as many more as needed to reach `at_least`.
pub fn to_delete<'p>(job: &Job, active: &[&'p Pod], at_least: usize) -> Vec<&'p Pod> {
    let (mut to_delete, mut left) = match job.is_indexed() {
        true => indexes::misplaced(job, active),
        false => (Vec::new(), active.to_vec()),
    };
    if to_delete.len() < at_least {
        rank::sort(&mut left);
        let more = at_least - to_delete.len();
        to_delete.extend(left.into_iter().take(more));
    }
    to_delete
}
