//! Chooses the next step for the pods of a Job that has not ended.

use std::time::Duration;

use flyball_sdk::Time;

use crate::backoff::{self, Record};
use crate::indexes::Indexes;
use crate::rank;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::views::{Job, Pod};

/// The next step: either pods are created or they are deleted. Deleting comes first.
#[derive(Debug)]
pub enum Step<'p> {
    /// The number of pods is right.
    Stay,
    /// Pods are needed, but the backoff has not passed yet.
    Wait(Duration),
    /// Creates one pod per element; the element is the pod's index if the job has indexes.
    Create(Vec<Option<i64>>),
    /// Deletes these pods.
    Delete(Vec<&'p Pod>),
}

impl Step<'_> {
    /// The value of the metrics' `action` label.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Stay => "tracking",
            Self::Wait(_) | Self::Create(_) => "pods_created",
            Self::Delete(_) => "pods_deleted",
        }
    }
}

/// Inputs of a step besides the job itself.
pub struct Known<'a, 'p> {
    /// The pods of the job.
    pub pods: &'p [Pod],
    pub tally: &'a Tally<'p>,
    /// The state of its indexes; `None` unless it is an Indexed Job.
    pub indexes: Option<&'a Indexes<'p>>,
    pub record: &'a Record,
    pub settings: &'a Settings,
    pub now: Time,
}

pub fn step<'p>(job: &Job, known: &Known<'_, 'p>) -> Step<'p> {
    let Known {
        tally, settings, ..
    } = known;
    let active = tally.active.len();
    if job.suspend {
        return Step::Delete(rank::to_delete(job, &tally.active, active));
    }
    let wanted = wanted(job, succeeded(tally, known.indexes), active);
    let mut to_delete = rank::to_delete(job, &tally.active, active.saturating_sub(wanted));
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
            job,
            known,
            missing.min(settings.max_pod_create_delete_per_sync),
        ),
    }
}

/// Number of completions that have succeeded: pods or, for an Indexed Job, indexes.
pub fn succeeded(tally: &Tally, indexes: Option<&Indexes>) -> i64 {
    indexes.map_or(tally.succeeded, |indexes| indexes.succeeded.total())
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

/// Creates pods, or waits for the backoff: that of the whole job or, with a backoff limit per
/// index, of each index.
fn create<'p>(job: &Job, known: &Known<'_, 'p>, missing: usize) -> Step<'p> {
    let wait = match job.backoff_limit_per_index {
        Some(_) => Duration::ZERO,
        None => known.record.wait(known.settings, known.now),
    };
    if !wait.is_zero() {
        return Step::Wait(wait.max(known.settings.sync_batch_period));
    }
    let Some(indexes) = known.indexes else {
        return Step::Create(vec![None; missing]);
    };
    let pending = indexes.pending(job, known.pods, missing);
    let wait = |index: i64| {
        backoff::wait_of_index(
            indexes.awaiting.get(&index).copied(),
            known.settings,
            known.now,
        )
    };
    let (now, later): (Vec<i64>, Vec<i64>) = pending
        .into_iter()
        .partition(|index| wait(*index).is_zero());
    match later.into_iter().map(wait).min() {
        Some(wait) if now.is_empty() => Step::Wait(wait.max(known.settings.sync_batch_period)),
        _ => Step::Create(now.into_iter().map(Some).collect()),
    }
}
