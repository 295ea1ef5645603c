//! Pods that still have the finalizer although no Job counts them: their Job was deleted or has
//! ended, or they have no controller. Without this queue they could never be deleted.
//!
//! Upstream: pkg/controller/job/job_controller.go: enqueueOrphanPod, enqueueLabelSelector, syncOrphanPod,
//! syncOrphanPodsBySelector, handleSingleOrphanPod.

use flyball_pods::has_ended;
use flyball_sdk::list::List;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

use crate::metrics;
use crate::ownership;
use crate::pods::{FINALIZER, has_finalizer};
use crate::views::{BY_FINALIZER, HeldPod, Job, Presence};

/// The queue for these pods.
pub const QUEUE: &str = "job_orphan_pod";

/// Removes the finalizer from the pod with this key if no job counts it.
///
/// # Errors
/// A read or the write failed.
pub fn reconcile(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let Some(pod) = host
        .get_by_key::<HeldPod>(key)?
        .filter(|pod| has_finalizer(&pod.meta.finalizers))
    else {
        return Ok(Outcome::Done);
    };
    if is_orphan(host, &pod)? {
        host.write(ownership::remove_finalizer(&pod.meta))
            .found()
            .doing(|| format!("removing the finalizer of pod {key}"))?;
    }
    Ok(Outcome::Done)
}

/// Removes the finalizer from all pods of a finished job. Usually none has it, because a job ends
/// only after all of its pods are counted.
///
/// # Errors
/// A read or a write failed.
pub fn free_all_of(host: &Host, job: &Job) -> Result<(), Error> {
    let held = held_pods_of(host, &job.meta).all()?;
    let results = host
        .batch()
        .extend(
            held.iter()
                .map(|pod| ownership::remove_finalizer(&pod.meta)),
        )
        .run();
    let errors = results
        .into_iter()
        .filter_map(|result| result.found().err());
    Error::join(errors.map(Error::from)).map_or(Ok(()), Err)
}

/// Selects the pods of a job that have the finalizer.
fn held_pods_of<'a>(host: &Host<'a>, job: &Meta) -> List<'a, HeldPod> {
    host.list::<HeldPod>()
        .namespace(&job.namespace)
        .controller(&job.uid)
        .index(BY_FINALIZER, FINALIZER)
}

/// Enqueues changed pods that no job counts and the pods of deleted jobs, and updates the metrics
/// that depend on changes.
///
/// # Errors
/// A read failed.
pub fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    let mut found = Vec::new();
    for delta in deltas {
        if delta.watch == Job::KIND {
            route_job(host, delta, &mut found)?;
        } else {
            route_pod(host, delta, &mut found)?;
        }
    }
    Ok(found)
}

fn route_job(host: &Host, delta: &Delta, found: &mut Vec<RoutedKey>) -> Result<(), Error> {
    let (before, after) = (delta.before::<Presence>()?, delta.after::<Presence>()?);
    if let (None, Some(job)) = (&before, &after)
        && let Some(other) = job.other_controller()
    {
        host.metrics().add(metrics::BY_OTHERS, &[other], 1.0);
    }
    let is_same = |old: &Presence| {
        after
            .as_ref()
            .is_some_and(|job| job.meta.uid == old.meta.uid)
    };
    if let Some(deleted) = before.filter(|old| !is_same(old)) {
        held_pods_of(host, &deleted.meta).each(|pod| {
            found.push(routed(&pod));
            Ok(())
        })?;
    }
    Ok(())
}

fn route_pod(host: &Host, delta: &Delta, found: &mut Vec<RoutedKey>) -> Result<(), Error> {
    let (before, after) = (delta.before::<HeldPod>()?, delta.after::<HeldPod>()?);
    let is_tracked = |pod: &HeldPod| has_ended(&pod.phase) && has_finalizer(&pod.meta.finalizers);
    match (
        before.is_some_and(|pod| is_tracked(&pod)),
        after.as_ref().is_some_and(is_tracked),
    ) {
        (false, true) => host.metrics().add(metrics::TRACKED, &["add"], 1.0),
        (true, false) => host.metrics().add(metrics::TRACKED, &["delete"], 1.0),
        _ => {}
    }
    let Some(pod) = after.filter(|pod| has_finalizer(&pod.meta.finalizers)) else {
        return Ok(());
    };
    // A pod that is not being deleted and whose job is missing may belong to a job that is not in
    // the cache yet. It can wait: the garbage collector will delete it or remove its owner
    // reference.
    if (pod.meta.is_deleting() || pod.meta.controller().is_none()) && is_orphan(host, &pod)? {
        found.push(routed(&pod));
    }
    Ok(())
}

fn routed(pod: &HeldPod) -> RoutedKey {
    RoutedKey {
        queue: QUEUE.into(),
        ..RoutedKey::now(pod.meta.key())
    }
}

/// Whether no job counts this pod. Pods controlled by another kind, and pods of a job that another
/// controller manages, are left alone.
fn is_orphan(host: &Host, pod: &HeldPod) -> Result<bool, Error> {
    let Some(owner) = pod.meta.controller() else {
        return Ok(true);
    };
    if !owner.is_of(Job::KIND) {
        return Ok(false);
    }
    let job = host.get::<Presence>(&pod.meta.namespace, &owner.name)?;
    Ok(job
        .filter(|job| job.meta.uid == owner.uid)
        .is_none_or(|job| job.other_controller().is_none() && job.is_finished()))
}
