//! Counting pods that have ended, each exactly once, though any write can fail (KEP-2307).
//!
//! A finalizer keeps each pod until it is counted. First the status names the pods that have ended,
//! or the indexes that they complete; then their finalizers are removed; then the status counts
//! those that are free, and names them no more. Whoever is named and not held is free, so that the
//! last step can be taken by any later reconcile.

use std::collections::{BTreeSet, HashSet};

use flyball_sdk::Time;

use crate::failure_policy;
use crate::indexes::Indexes;
use crate::settings::Settings;
use crate::verdict::{Verdict, set_condition};
use crate::views::{Job, Pod, Status, Uncounted};

/// The first step of counting.
#[derive(Debug, Default)]
pub struct Account<'p> {
    /// The status that names what has ended.
    pub status: Status,
    /// The pods whose finalizers can go once the status is written.
    pub free: Vec<&'p Pod>,
    /// What the pod failure policy did to newly failed pods.
    pub policy_actions: Vec<&'static str>,
    /// Whether there are more that have ended than one step takes.
    pub is_full: bool,
}

/// What is known of a job when its pods are counted.
pub struct Known<'a, 'p> {
    /// The job, as it was read.
    pub job: &'a Job,
    /// Its pods.
    pub pods: &'p [Pod],
    /// Its indexes, if it has any.
    pub indexes: Option<&'a Indexes<'p>>,
    /// How it ends, if it does.
    pub verdict: Option<&'a Verdict>,
    /// The operator's settings.
    pub settings: &'a Settings,
    /// The time.
    pub now: Time,
}

/// Names the pods that have ended. `status` is what the job's is to be, but for its counters.
pub fn account<'p>(known: &Known<'_, 'p>, mut status: Status) -> Account<'p> {
    let Known {
        job,
        indexes,
        verdict,
        ..
    } = known;
    let mut pods: Vec<&Pod> = known.pods.iter().filter(|pod| pod.is_held()).collect();
    settle(&mut status, &held(&pods));
    if job.is_indexed() {
        // So that indexes are completed in order.
        pods.sort_by_key(|pod| pod.index());
    }

    let mut account = Account::default();
    let mut succeeded = BTreeSet::new();
    for pod in pods {
        if !can_go(known, pod) {
            continue;
        }
        account.free.push(pod);
        name(
            known,
            pod,
            &mut status.uncounted_terminated_pods,
            &mut succeeded,
            &mut account.policy_actions,
        );
        let Uncounted {
            succeeded: by_uid,
            failed,
        } = &status.uncounted_terminated_pods;
        if succeeded.len() + by_uid.len() + failed.len() >= known.settings.max_uncounted_pods {
            account.is_full = true;
            break;
        }
    }

    if let Some(indexes) = indexes {
        // Also those of pods that are left for the next step: they stay held, and are not counted
        // again.
        let completed = indexes.succeeded.with(&succeeded);
        status.succeeded = completed.total().try_into().unwrap_or(i32::MAX);
        status.completed_indexes = completed.to_string();
        status.failed_indexes = indexes.failed.as_ref().map(ToString::to_string);
    }
    if let Some(verdict) = verdict {
        // Where it is said already, it stays as it was said.
        set_condition(
            &mut status.conditions,
            verdict.condition(verdict.interim_type(), known.now),
        );
    }
    account.status = status;
    account
}

/// Counts the pods that are named and are not held any more.
pub fn settle(status: &mut Status, held: &HashSet<&str>) {
    let Uncounted { succeeded, failed } = &mut status.uncounted_terminated_pods;
    for (uids, counter) in [
        (succeeded, &mut status.succeeded),
        (failed, &mut status.failed),
    ] {
        let before = uids.len();
        uids.retain(|uid| held.contains(uid.as_str()));
        *counter += (before - uids.len()) as i32;
    }
}

/// The UIDs of pods.
pub fn held<'p>(pods: &[&'p Pod]) -> HashSet<&'p str> {
    pods.iter().map(|pod| pod.meta.uid.as_str()).collect()
}

/// Says for good how a job has ended, if it has: all of its pods are counted and gone, or have
/// ended. Answers whether.
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

/// Whether a pod's finalizer can go: it has ended, or the job has. But the last failed pod of an
/// index waits for the next one, which inherits how often the index has failed.
fn can_go(known: &Known, pod: &Pod) -> bool {
    if known.job.meta.is_deleting() || known.verdict.is_some() || pod.has_succeeded() {
        return true;
    }
    let is_last_of_index = || {
        let awaiting = known.indexes.map(|indexes| &indexes.awaiting);
        let last = pod.index().and_then(|index| awaiting?.get(&index));
        last.is_some_and(|last| last.meta.uid == pod.meta.uid)
    };
    pod.has_failed(known.job) && !is_last_of_index()
}

/// Names a pod that has ended, or the index that it completes, unless that is done. When a job
/// fails, every pod that has not succeeded is a failure. A pod of an index that the job does not
/// have counts for nothing.
fn name(
    known: &Known,
    pod: &Pod,
    uncounted: &mut Uncounted,
    succeeded: &mut BTreeSet<i64>,
    policy_actions: &mut Vec<&'static str>,
) {
    let Known {
        job,
        indexes,
        verdict,
        ..
    } = known;
    let uid = &pod.meta.uid;
    // As it was read: a pod that was named as failed stays so, even if it says otherwise later.
    let before = &job.status.uncounted_terminated_pods;
    let index = pod.index_in(job);
    if pod.has_succeeded() && !before.failed.contains(uid) {
        match indexes {
            // The index is enough not to count it twice.
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
