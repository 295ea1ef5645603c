//! Pods that keep the finalizer though no Job counts them any more: their Job is gone, or nobody
//! controls them. Unless it is taken off, they stay for ever.

use flyball_sdk::pod::has_ended;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, controller::RoutedKey};

use crate::claim;
use crate::metrics;
use crate::pods::is_held;
use crate::views::{HeldPod, Job, Presence};

/// The queue of such pods.
pub const QUEUE: &str = "job_orphan_pod";

/// Takes the finalizer off the pod of this key, if it is such a pod.
///
/// # Errors
/// A read or the write failed.
pub fn reconcile(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let Some(pod) = host
        .get_key::<HeldPod>(key)?
        .filter(|pod| is_held(&pod.meta.finalizers))
    else {
        return Ok(Outcome::Done);
    };
    if is_orphan(host, &pod)? {
        host.write(claim::freeing(&pod.meta))
            .found()
            .doing(|| format!("freeing pod {key}"))?;
    }
    Ok(Outcome::Done)
}

/// Takes the finalizer off all pods of a job that has ended. None should have it: a job ends when
/// all are counted.
///
/// # Errors
/// A read or a write failed.
pub fn free_all_of(host: &Host, job: &Job) -> Result<(), Error> {
    let pods = host
        .list::<HeldPod>()
        .namespace(&job.meta.namespace)
        .controller(&job.meta.uid)
        .all()?;
    let held = pods.iter().filter(|pod| is_held(&pod.meta.finalizers));
    let answers = host
        .batch()
        .extend(held.map(|pod| claim::freeing(&pod.meta)))
        .run();
    let errors = answers
        .into_iter()
        .filter_map(|answer| answer.found().err());
    Error::join(errors.map(Error::from)).map_or(Ok(()), Err)
}

/// Finds such pods among changed ones, and those of jobs that are gone; and counts what only
/// changes tell.
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
    let is_same = |gone: &Presence| {
        after
            .as_ref()
            .is_some_and(|job| job.meta.uid == gone.meta.uid)
    };
    if let Some(gone) = before.filter(|gone| !is_same(gone)) {
        host.list::<HeldPod>()
            .namespace(&gone.meta.namespace)
            .controller(&gone.meta.uid)
            .each(|pod| {
                found.extend(is_held(&pod.meta.finalizers).then(|| routed(&pod)));
                Ok(())
            })?;
    }
    Ok(())
}

fn route_pod(host: &Host, delta: &Delta, found: &mut Vec<RoutedKey>) -> Result<(), Error> {
    let (before, after) = (delta.before::<HeldPod>()?, delta.after::<HeldPod>()?);
    let is_tracked = |pod: &HeldPod| has_ended(&pod.phase) && is_held(&pod.meta.finalizers);
    match (
        before.is_some_and(|pod| is_tracked(&pod)),
        after.as_ref().is_some_and(is_tracked),
    ) {
        (false, true) => host.metrics().add(metrics::TRACKED, &["add"], 1.0),
        (true, false) => host.metrics().add(metrics::TRACKED, &["delete"], 1.0),
        _ => {}
    }
    let Some(pod) = after.filter(|pod| is_held(&pod.meta.finalizers)) else {
        return Ok(());
    };
    // A pod that is not being deleted and whose job is missing may be of a job that is not known
    // yet: it can wait, for the garbage collector will delete it or take its owner away.
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

/// Whether no job counts this pod any more. A pod that something else controls is not ours, nor is
/// one of a job that another controller runs.
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
