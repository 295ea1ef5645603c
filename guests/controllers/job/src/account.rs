//! Counts pods that have ended, each exactly once although any write can fail (KEP-2307).
//!
//! A finalizer keeps each pod until it is counted. Three steps: the status lists the UIDs of the
//! pods that have ended, or the indexes that they complete; the finalizers of those pods are
//! removed; the listed pods without a finalizer are added to the status's counters and removed from
//! the list. A listed pod without the finalizer is always safe to count, so any later reconcile can
//! do the last step.
//!
//! Upstream: pkg/controller/job/job_controller.go: trackJobStatusAndRemoveFinalizers, canRemoveFinalizer,
//! cleanUncountedPodsWithoutFinalizers, enactJobFinished, filterInUncountedUIDs, getNewFinishedPods.

use std::collections::{BTreeSet, HashSet};

use flyball_sdk::Time;

use crate::failure_policy;
use crate::observed::Observed;
use crate::verdict::{Verdict, set_condition};
use crate::views::{Pod, Status, Uncounted};

/// The result of the first step.
#[derive(Debug, Default)]
pub struct Account<'p> {
    /// The status that lists the ended pods.
    pub status: Status,
    /// The pods whose finalizers are removed once the status is written.
    pub free: Vec<&'p Pod>,
    /// The actions of the pod failure policy for newly failed pods.
    pub policy_actions: Vec<&'static str>,
    /// Whether more pods have ended than one step counts.
    pub is_full: bool,
}

/// Lists the pods that have ended. `verdict` is how the job ends, if it does. `status` is the
/// status to be written, except for its counters.
pub fn account<'p>(
    observed: &Observed<'p>,
    verdict: Option<&Verdict>,
    mut status: Status,
) -> Account<'p> {
    let Observed { job, indexes, .. } = observed;
    let mut pods: Vec<&Pod> = observed
        .pods
        .iter()
        .filter(|pod| pod.has_finalizer())
        .collect();
    settle(&mut status, &uids(&pods));
    if job.is_indexed() {
        // Indexes complete in ascending order.
        pods.sort_by_key(|pod| pod.index());
    }

    let mut account = Account::default();
    let mut succeeded = BTreeSet::new();
    for pod in pods {
        if !may_remove_finalizer(observed, verdict, pod) {
            continue;
        }
        account.free.push(pod);
        list(
            observed,
            verdict,
            pod,
            &mut status.uncounted_terminated_pods,
            &mut succeeded,
            &mut account.policy_actions,
        );
        let Uncounted {
            succeeded: by_uid,
            failed,
        } = &status.uncounted_terminated_pods;
        if succeeded.len() + by_uid.len() + failed.len() >= observed.settings.max_uncounted_pods {
            account.is_full = true;
            break;
        }
    }

    if let Some(indexes) = indexes {
        // This includes pods left for the next step. They keep the finalizer and are not counted
        // again.
        let completed = indexes.succeeded.with(&succeeded);
        status.succeeded = completed.total().try_into().unwrap_or(i32::MAX);
        status.completed_indexes = completed.to_string();
        status.failed_indexes = indexes.failed.as_ref().map(ToString::to_string);
    }
    if let Some(verdict) = verdict {
        // A condition that is already set stays unchanged.
        set_condition(
            &mut status.conditions,
            verdict.condition(verdict.interim_type(), observed.now),
        );
    }
    account.status = status;
    account
}

/// Adds listed pods that no longer have the finalizer to the counters.
pub fn settle(status: &mut Status, held: &HashSet<&str>) {
    let Uncounted { succeeded, failed } = &mut status.uncounted_terminated_pods;
    for (uids, counter) in [
        (succeeded, &mut status.succeeded),
        (failed, &mut status.failed),
    ] {
        let before = uids.len();
        uids.retain(|uid| held.contains(uid.as_str()));
        // The API server stores any number.
        *counter = counter.saturating_add((before - uids.len()) as i32);
    }
}

/// Returns the UIDs of pods.
pub fn uids<'p>(pods: &[&'p Pod]) -> HashSet<&'p str> {
    pods.iter().map(|pod| pod.meta.uid.as_str()).collect()
}

/// Sets the final conditions if the job can finish: all ended pods are counted and none is
/// terminating. Returns whether it did.
pub fn finish(status: &mut Status, verdict: &Verdict, now: Time) -> bool {
    let is_counted = status.uncounted_terminated_pods == Uncounted::default();
    if !is_counted || status.terminating.unwrap_or(0) > 0 {
        return false;
    }
    set_condition(
        &mut status.conditions,
        verdict.condition(verdict.final_type(), now),
    );
    if verdict.is_success {
        status.completion_time = Some(now.to_second());
    }
    true
}

/// Whether a pod's finalizer can be removed: the pod or the job has ended. The last failed pod of
/// an index keeps it until its replacement exists, which inherits the number of failures.
fn may_remove_finalizer(observed: &Observed, verdict: Option<&Verdict>, pod: &Pod) -> bool {
    let job = observed.job;
    if job.meta.is_deleting() || verdict.is_some() || pod.has_succeeded() {
        return true;
    }
    let is_last_of_index = || {
        let awaiting = observed.indexes.as_ref().map(|indexes| &indexes.awaiting);
        let last = pod.index().and_then(|index| awaiting?.get(&index));
        last.is_some_and(|last| last.meta.uid == pod.meta.uid)
    };
    pod.has_failed(job) && !is_last_of_index()
}

/// Lists a pod that has ended, or the index that it completes, unless it is listed already. When
/// the job fails, every pod that has not succeeded counts as failed. A pod without a valid index is
/// not counted.
fn list(
    observed: &Observed,
    verdict: Option<&Verdict>,
    pod: &Pod,
    uncounted: &mut Uncounted,
    succeeded: &mut BTreeSet<i64>,
    policy_actions: &mut Vec<&'static str>,
) {
    let Observed { job, indexes, .. } = observed;
    let uid = &pod.meta.uid;
    // The list as it was read: a pod listed as failed stays failed even if its phase changes later.
    let before = &job.status.uncounted_terminated_pods;
    let index = pod.index_in(job);
    if pod.has_succeeded() && !before.failed.contains(uid) {
        match indexes {
            // The completed index prevents counting it twice, so its UID is not listed.
            Some(indexes) => succeeded.extend(index.filter(|index| !indexes.counted.has(*index))),
            None if !before.succeeded.contains(uid) => uncounted.succeeded.push(uid.clone()),
            None => {}
        }
    } else if pod.has_failed(job) || verdict.is_some_and(|verdict| !verdict.is_success) {
        if before.failed.contains(uid) || job.is_indexed() && index.is_none() {
            return;
        }
        let action = failure_policy::action(job.pod_failure_policy.as_ref(), pod);
        policy_actions.extend(action.as_ref().map(failure_policy::Action::as_str));
        if action != Some(failure_policy::Action::Ignore) {
            uncounted.failed.push(uid.clone());
        }
    }
}
