//! What brings the pods of a Job to what it asks for.

use std::time::Duration;

use flyball_sdk::Time;

use crate::backoff::{self, Record};
use crate::indexes::Indexes;
use crate::rank;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::views::{Job, Pod};

/// The next step. Either pods are made or they are deleted; what is too much goes first.
#[derive(Debug)]
pub enum Step<'p> {
    /// There are as many as there should be.
    Stay,
    /// More are needed, but failures ask to wait.
    Wait(Duration),
    /// These are needed: an index for each, where the job has indexes.
    Create(Vec<Option<i64>>),
    /// These must go.
    Delete(Vec<&'p Pod>),
}

impl Step<'_> {
    /// What metrics call it.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Stay => "tracking",
            Self::Wait(_) | Self::Create(_) => "pods_created",
            Self::Delete(_) => "pods_deleted",
        }
    }
}

/// What a step depends on, beyond the job itself.
pub struct Known<'a, 'p> {
    /// The job's pods.
    pub pods: &'p [Pod],
    /// What they amount to.
    pub tally: &'a Tally<'p>,
    /// What has become of its indexes, if it has any.
    pub indexes: Option<&'a Indexes<'p>>,
    /// Its failures since the last success.
    pub record: &'a Record,
    /// The operator's settings.
    pub settings: &'a Settings,
    /// The time.
    pub now: Time,
}

/// The next step of a job that has not ended.
pub fn step<'p>(job: &Job, known: &Known<'_, 'p>) -> Step<'p> {
    let Known {
        tally, settings, ..
    } = known;
    let active = tally.active.len();
    if job.suspend {
        return Step::Delete(rank::doomed(job, &tally.active, active));
    }
    let wanted = wanted(job, succeeded(tally, known.indexes), active);
    let mut doomed = rank::doomed(job, &tally.active, active.saturating_sub(wanted));
    if !doomed.is_empty() {
        doomed.truncate(settings.max_pod_create_delete_per_sync);
        return Step::Delete(doomed);
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

/// How many completions have succeeded: pods or, of an Indexed Job, indexes.
pub fn succeeded(tally: &Tally, indexes: Option<&Indexes>) -> i64 {
    indexes.map_or(tally.succeeded, |indexes| indexes.succeeded.total())
}

/// How many pods should be active: never more than what is left to complete. Without a number of
/// completions no more are started once a pod has succeeded.
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

/// Makes pods, where failures let it: of the whole job or, where indexes are told apart, of each.
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
