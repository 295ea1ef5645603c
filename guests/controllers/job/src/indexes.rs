//! The indexes of an Indexed Job (KEP-2214): which have succeeded or failed, which need a pod, and which have
//! too many pods. Failures may be limited for each index (KEP-3850).
//!
//! Upstream: pkg/controller/job/indexed_job_utils.go: calculateSucceededIndexes, calculateFailedIndexes, isIndexFailed,
//! firstPendingIndexes, appendDuplicatedIndexPodsForRemoval, getPodsWithDelayedDeletionPerIndex,
//! getNewIndexFailureCounts, appendPodsWithSameIndexForRemovalAndRemaining.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure_policy::{self, Action};
use crate::intervals::Intervals;
use crate::rank;
use crate::views::{Job, Pod};

#[derive(Debug, Default)]
pub struct Indexes<'p> {
    /// Succeeded according to the status.
    pub counted: Intervals,
    /// Succeeded according to the status or to uncounted pods.
    pub succeeded: Intervals,
    /// Failed indexes; `None` without a backoff limit per index.
    pub failed: Option<Intervals>,
    /// The last failed pod of each index that needs a replacement. It keeps its finalizer until the
    /// replacement is created, because only its annotations hold the number of failures of the
    /// index.
    pub awaiting: BTreeMap<i64, &'p Pod>,
}

impl<'p> Indexes<'p> {
    pub fn of(job: &Job, pods: &'p [Pod]) -> Self {
        let end = job.indexes();
        let counted = Intervals::parse(&job.status.completed_indexes, end);
        let held = || pods.iter().filter(|pod| pod.has_finalizer());
        let succeeded = held()
            .filter(|pod| pod.has_succeeded())
            .filter_map(|pod| pod.index_in(job))
            .collect();
        let succeeded = counted.with(&succeeded);
        let Some(limit) = job.backoff_limit_per_index else {
            return Self {
                counted,
                succeeded,
                ..Self::default()
            };
        };
        let before = Intervals::parse(
            job.status.failed_indexes.as_deref().unwrap_or_default(),
            end,
        );
        let failed = held()
            .filter(|pod| fails_its_index(job, pod, limit))
            .filter_map(|pod| pod.index_in(job))
            .collect();
        let failed = before.with(&failed);
        let active = of_pods(pods.iter().filter(|pod| pod.is_active()));
        let settled =
            |index: i64| succeeded.has(index) || failed.has(index) || active.contains(&index);
        let awaiting = last_failures(job, held(), settled);
        Self {
            counted,
            succeeded,
            failed: Some(failed),
            awaiting,
        }
    }

    /// Number of failed indexes.
    pub fn failures(&self) -> i64 {
        self.failed.as_ref().map_or(0, Intervals::total)
    }

    /// The first `count` indexes that have neither succeeded nor failed and have no pod.
    pub fn pending(&self, job: &Job, pods: &[Pod], count: usize) -> Vec<i64> {
        let waits_for =
            |pod: &&Pod| pod.is_active() || job.replaces_only_ended() && pod.is_terminating();
        let mut taken = self.succeeded.with(&of_pods(pods.iter().filter(waits_for)));
        if let Some(failed) = &self.failed {
            taken = taken.and(failed);
        }
        taken.missing(count, job.indexes())
    }

    /// Returns the numbers of earlier failures of an index, for its next pod: the failures that count, and the failures
    /// that the failure policy ignores.
    pub fn failures_before(&self, job: &Job, index: i64) -> (i32, i32) {
        let Some(pod) = self.awaiting.get(&index) else {
            return (0, 0);
        };
        let (failures, ignored) = (pod.earlier_failures(), pod.earlier_ignored_failures());
        match failure_policy::is_counted(job.pod_failure_policy.as_ref(), pod) {
            true => (failures.saturating_add(1), ignored),
            false => (failures, ignored.saturating_add(1)),
        }
    }
}

/// Splits active pods of an Indexed Job into the surplus ones and the best one of each index.
pub fn misplaced<'p>(job: &Job, active: &[&'p Pod]) -> (Vec<&'p Pod>, Vec<&'p Pod>) {
    let mut by_index: BTreeMap<Option<i64>, Vec<&Pod>> = BTreeMap::new();
    for &pod in active {
        by_index.entry(pod.index_in(job)).or_default().push(pod);
    }
    let mut misplaced = by_index.remove(&None).unwrap_or_default();
    let mut left = Vec::new();
    for mut pods in by_index.into_values() {
        rank::sort(&mut pods);
        left.extend(pods.pop());
        misplaced.append(&mut pods);
    }
    (misplaced, left)
}

fn of_pods<'p>(pods: impl Iterator<Item = &'p Pod>) -> BTreeSet<i64> {
    pods.filter_map(Pod::index).collect()
}

/// Whether the failure of this pod fails its index: no more failures are allowed, or the policy
/// says so.
fn fails_its_index(job: &Job, pod: &Pod, limit: i32) -> bool {
    if !pod.has_failed(job) {
        return false;
    }
    match failure_policy::action(job.pod_failure_policy.as_ref(), pod) {
        Some(Action::FailIndex) => true,
        Some(Action::Ignore) => false,
        _ => pod.earlier_failures() >= limit,
    }
}

/// Returns the last failed pod of each index that is not settled: the one with the most earlier
/// failures, or else the one that ended last.
fn last_failures<'p>(
    job: &Job,
    held: impl Iterator<Item = &'p Pod>,
    settled: impl Fn(i64) -> bool,
) -> BTreeMap<i64, &'p Pod> {
    let mut last: BTreeMap<i64, &Pod> = BTreeMap::new();
    for pod in held.filter(|pod| pod.has_failed(job)) {
        let Some(index) = pod.index_in(job).filter(|index| !settled(*index)) else {
            continue;
        };
        let is_later = |than: &Pod| {
            than.all_earlier_failures() <= pod.all_earlier_failures()
                && than.finished_at() <= pod.finished_at()
        };
        if last.get(&index).is_none_or(|than| is_later(than)) {
            last.insert(index, pod);
        }
    }
    last
}
