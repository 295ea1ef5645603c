//! What the controllers of ReplicaSets and of ReplicationControllers share: they keep the number of
//! pods that an object asks for.
//!
//! [`reconcile`] names the steps; each step is a pure function in [`claim`], [`scale`], [`rank`] or
//! [`status`]. [`flavor`] holds what differs between the kinds. Each guest is a crate of its own
//! that exports one of the controllers, because a component exports only one.
//!
//! There are no expectations. The host's cache shows a plugin all of its own acknowledged writes,
//! so a pod that was just created is counted, and a pod that was just deleted is not.

pub mod claim;
mod describe;
pub mod flavor;
pub mod rank;
pub mod scale;
pub mod status;
#[cfg(test)]
mod tests;
pub mod views;

use std::collections::HashSet;
use std::marker::PhantomData;
use std::time::Duration;

use flyball_sdk::pod::created_name;
use flyball_sdk::prelude::*;
use flyball_sdk::{debug, error};

pub use describe::describe;
use flavor::{Flavored, Of};
use rank::Crowds;
use scale::{Report, Step};
use views::{Bystander, Candidate, Pod, Presence, Set, Sibling, Status};

/// A status may not wait again for so long.
const WAIT: Duration = Duration::from_secs(1);

/// The controller of objects of a flavor.
pub struct Replicas<F>(PhantomData<F>);

/// replicaset-controller.
pub type ReplicaSets = Replicas<flavor::ReplicaSet>;

/// replicationcontroller-controller.
pub type ReplicationControllers = Replicas<flavor::ReplicationController>;

impl<F: Flavored> Controller for Replicas<F> {
    fn describe() -> Description {
        describe::<F>()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        reconcile::<F>(host, &request.key)
    }
}

/// Creates or deletes pods until the set has the desired number, and updates its status.
///
/// # Errors
/// A read or a write failed. What could be written was.
pub fn reconcile<F: Flavored>(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let Some(Of { view: set, .. }) = host.get_key::<Of<F, Set>>(key)? else {
        // It is gone. Its pods are the garbage collector's.
        return Ok(Outcome::Done);
    };
    let selector = match LabelSelector::of_json(set.selector.text().as_bytes()) {
        Ok(selector) => selector,
        Err(error) => {
            error!(host, "the selector of {key} is not valid: {error}");
            return Ok(Outcome::Done);
        }
    };

    let own = host
        .list::<Pod>()
        .namespace(&key.namespace)
        .controller(&set.meta.uid)
        .all()?;
    let orphans = host
        .list::<Pod>()
        .namespace(&key.namespace)
        .orphans()
        .labels(&selector)
        .all()?;
    let terminating = claim::count_terminating(&selector, &own);
    let active = claim::claim::<F>(host, &set, &selector, own, orphans)?;

    let report = if set.meta.is_deleting() {
        Report::default()
    } else {
        scale::<F>(host, &set, &active)?
    };

    let judged = host.now();
    let known = status::Known {
        active: &active,
        terminating,
        failure: report.failure.as_ref(),
        now: judged,
    };
    let status = status::status(&F::FLAVOR, &set, &known);
    let waits = || report.is_success() && status.repeats(&set.status) && begins_to_wait(host, &set);
    if status != set.status && !waits() {
        write_status::<F>(host, &set, &status)?;
    }
    match report.failure {
        Some(failure) => Err(Error::failed(failure.message)),
        None => Ok(
            status::next_availability(&set, &active, &status, judged, host.now())
                .map_or(Outcome::Done, Outcome::RequeueAfter),
        ),
    }
}

/// Makes or deletes pods, tells of it, and answers what came of it.
fn scale<F: Flavored>(host: &Host, set: &Set, active: &[Pod]) -> Result<Report, Error> {
    let report = match scale::step(active.len(), set.wanted()) {
        Step::Stay => return Ok(Report::default()),
        Step::Create(missing) => create::<F>(host, set, missing),
        Step::Delete(surplus) => delete::<F>(host, set, active, surplus)?,
    };
    let about = set.meta.reference(F::FLAVOR.kind);
    for note in &report.notes {
        match note.is_warning {
            true => host.emit(Event::warning(&about, note.reason, &note.message)),
            false => host.emit(Event::normal(&about, note.reason, &note.message)),
        }
    }
    Ok(report)
}

/// Makes pods: one, then two, then four …, until one is refused, because the rest would be, too.
fn create<F: Flavored>(host: &Host, set: &Set, missing: usize) -> Report {
    debug!(host, "too few pods for {}: making {missing}", set.wanted());
    let owner = set.meta.controller_reference(F::FLAVOR.kind);
    let creation = match scale::creation(set, &owner) {
        Ok(creation) => creation,
        Err(failure) => {
            return Report {
                notes: Vec::new(),
                failure: Some(failure),
            };
        }
    };
    let answers = host
        .batch()
        .extend(std::iter::repeat_n(creation, missing))
        .slow_start(1)
        .run();
    let name = |answer: Answer| created_name(&answer).unwrap_or_default();
    scale::report_creations(answers.into_iter().map(|answer| answer.map(name)))
}

/// Deletes the pods that serve least.
fn delete<F: Flavored>(
    host: &Host,
    set: &Set,
    active: &[Pod],
    surplus: usize,
) -> Result<Report, Error> {
    debug!(
        host,
        "too many pods for {}: deleting {surplus}",
        set.wanted()
    );
    let now = host.now();
    let candidates = candidates(host, set, active)?;
    let surplus = surplus.min(candidates.len().saturating_sub(set.wanted()));
    let is_choice = surplus < candidates.len();
    let crowds = if is_choice {
        crowds::<F>(host, set)?
    } else {
        Crowds::default()
    };
    let doomed = rank::least_useful(&candidates, surplus, &crowds, now);
    if let (true, Some(metric)) = (is_choice, F::FLAVOR.age_ratio) {
        for ratio in rank::age_ratios(&candidates, &doomed, now) {
            host.metrics().observe(metric, &[], ratio);
        }
    }
    let answers = host
        .batch()
        .extend(doomed.iter().map(|pod| scale::deletion(pod)))
        .run();
    Ok(scale::report_deletions(
        &doomed,
        answers.into_iter().map(|answer| answer.map(drop)),
    ))
}

/// All that is to be known of the active pods to choose among them. Those that went in the meantime
/// are not among them.
fn candidates(host: &Host, set: &Set, active: &[Pod]) -> Result<Vec<Candidate>, Error> {
    let active: HashSet<&str> = active.iter().map(|pod| pod.uid.as_str()).collect();
    let mut own = host
        .list::<Candidate>()
        .namespace(&set.meta.namespace)
        .controller(&set.meta.uid)
        .all()?;
    own.retain(|pod| active.contains(pod.meta.uid.as_str()));
    Ok(own)
}

/// Where the pods of all sets of this set's owner run, where that counts.
fn crowds<F: Flavored>(host: &Host, set: &Set) -> Result<Crowds, Error> {
    let mut crowds = Crowds::default();
    let owner = set.meta.controller().filter(|_| F::FLAVOR.has_siblings);
    let Some(owner) = owner else {
        return Ok(crowds);
    };
    let namespace = &set.meta.namespace;
    for Of { view: sibling, .. } in host
        .list::<Of<F, Sibling>>()
        .namespace(namespace)
        .controller(&owner.uid)
        .all()?
    {
        let Ok(selector) = LabelSelector::of_json(sibling.selector.text().as_bytes()) else {
            continue;
        };
        host.list::<Bystander>()
            .namespace(namespace)
            .labels(&selector)
            .each(|pod| {
                crowds.add(pod);
                Ok(())
            })?;
    }
    Ok(crowds)
}

/// Lets a status that only names a newer generation wait for the next reconcile, which the pods
/// that were just made or deleted bring within moments: one write then says all. False if one has
/// waited lately: where pods fail as soon as they are made, each reconcile makes some.
fn begins_to_wait(host: &Host, set: &Set) -> bool {
    let waited = host.memo().get::<bool>(&set.meta.uid).is_some();
    !waited && host.memo().put(&set.meta.uid, &true, "", WAIT).is_ok()
}

/// Writes the status. If that fails, most often because the set has changed since it was read, it
/// tries once more, on the newest version: the status says which generation it is for, so it is
/// true of that one as well.
fn write_status<F: Flavored>(host: &Host, set: &Set, status: &Status) -> Result<(), Error> {
    let kind = F::FLAVOR.kind;
    let Err(first) = host.update_status(kind, &set.meta, status) else {
        return Ok(());
    };
    debug!(
        host,
        "the status of {} was refused: {first}",
        set.meta.key()
    );
    let newest = host
        .reader()
        .get::<Of<F, Presence>>(&set.meta.namespace, &set.meta.name)?;
    match newest {
        Some(Of { view: newest, .. }) if newest.meta.uid == set.meta.uid => {
            host.update_status(kind, &newest.meta, status)?;
            Ok(())
        }
        _ => Err(Error::failed(format!("{} is gone", set.meta.key()))),
    }
}
