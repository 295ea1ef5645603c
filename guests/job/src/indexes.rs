//! The indexes of an Indexed Job: which have succeeded or failed, which need a pod, which have too
//! many.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure_policy::{self, Action};
use crate::intervals::Intervals;
use crate::rank;
use crate::views::{Job, Pod};

/// What has become of the indexes.
#[derive(Debug, Default)]
pub struct Indexes<'p> {
    /// Those that had succeeded according to the status.
    pub counted: Intervals,
    /// Those that have succeeded.
    pub succeeded: Intervals,
    /// Those that have failed; none where indexes are not told apart.
    pub failed: Option<Intervals>,
    /// The last failed pod of each index that waits for another one. Its finalizer stays until
    /// then, because its annotations are the only memory of how often the index has failed.
    pub awaiting: BTreeMap<i64, &'p Pod>,
}

impl<'p> Indexes<'p> {
    /// The indexes of an Indexed Job.
    pub fn of(job: &Job, pods: &'p [Pod]) -> Self {
        let end = job.indexes();
        let counted = Intervals::parse(&job.status.completed_indexes, end);
        let held = || pods.iter().filter(|pod| pod.is_held());
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

    /// How many have failed.
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

    /// How often pods of this index have failed before the one that is made now: those that count,
    /// and those that are ignored.
    pub fn failures_before(&self, job: &Job, index: i64) -> (i32, i32) {
        let Some(pod) = self.awaiting.get(&index) else {
            return (0, 0);
        };
        let (failures, ignored) = (pod.earlier_failures(), pod.earlier_ignored_failures());
        match failure_policy::counts(job.pod_failure_policy.as_ref(), pod) {
            true => (failures.saturating_add(1), ignored),
            false => (failures, ignored.saturating_add(1)),
        }
    }
}

/// The active pods that an Indexed Job has no use for, and the best one of each index.
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

/// Whether the index of this pod has failed: the pod has, and no more failures are allowed.
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

/// The failed pod of each index that is not settled that knows of the most failures; of several,
/// the last.
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
