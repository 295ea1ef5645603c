//! The shared implementation of replicaset-controller and replicationcontroller-controller: they
//! keep the desired number of pods.
//!
//! [`reconcile`] names the steps; each step is a pure function in [`ownership`], [`scale`], [`rank`] or
//! [`status`]. [`flavor`] contains the differences between the kinds. Each controller has its own
//! guest crate that exports it, because a component exports only one.
//!
//! There are no expectations. The host's cache shows a plugin all of its own acknowledged writes, so a new pod is
//! counted at once, and a deleted pod is not counted any more.
//!
//! Upstream: pkg/controller/replicaset/replica_set.go: syncReplicaSet, manageReplicas, slowStartBatch,
//! getIndirectlyRelatedPods, getPodsToDelete.
//! Upstream: pkg/controller/replicaset/replica_set_utils.go: updateReplicaSetStatus.

mod describe;
pub mod flavor;
pub mod ownership;
pub mod rank;
pub mod scale;
pub mod status;
#[cfg(test)]
mod tests;
pub mod views;

use std::collections::HashSet;
use std::marker::PhantomData;
use std::time::Duration;

use flyball_pods::{created_name, refusal};
use flyball_sdk::prelude::*;
use flyball_sdk::{debug, error};

pub use describe::describe;
use flavor::{Flavored, Of};
use rank::RelatedPods;
use scale::{Report, Step};
use views::{Candidate, Pod, Presence, RelatedPod, Set, Sibling, Status};

/// A status update is delayed at most once in this time.
const STATUS_DELAY: Duration = Duration::from_secs(1);

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
/// A read or a write failed. All other writes were carried out.
pub fn reconcile<F: Flavored>(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let Some(Of { view: set, .. }) = host.get_by_key::<Of<F, Set>>(key)? else {
        // The set was deleted. The garbage collector deletes its pods.
        return Ok(Outcome::Done);
    };
    let selector = match LabelSelector::of_json(set.selector.text().as_bytes()) {
        Ok(selector) => selector,
        Err(error) => {
            error!(host, "the selector of {key} is invalid: {error}");
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
    let counts_terminating = host.feature_enabled(describe::TERMINATING_REPLICAS);
    let terminating = counts_terminating.then(|| ownership::count_terminating(&selector, &own));
    let active = ownership::active_pods::<F>(host, &set, &selector, own, orphans)?;

    let report = if set.meta.is_deleting() {
        Report::default()
    } else {
        scale::<F>(host, &set, &active)?
    };

    let status_time = host.now();
    let known = status::Known {
        active: &active,
        terminating,
        failure: report.failure.as_ref(),
        now: status_time,
    };
    let status = status::status(&set, &known);
    let is_delayed =
        || report.is_success() && status.repeats(&set.status) && delay_status(host, &set);
    if status != set.status && !is_delayed() {
        write_status::<F>(host, &set, &status)?;
    }
    match report.failure {
        Some(failure) => Err(Error::failed(failure.message)),
        None => Ok(
            status::next_availability(&set, &active, &status, status_time, host.now())
                .map_or(Outcome::Done, Outcome::RequeueAfter),
        ),
    }
}

/// Creates or deletes pods, emits events, and returns the results.
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

/// Creates pods in slow-start rounds of 1, 2, 4 … and stops at the first round with an error. In a namespace that is
/// being deleted, it stops for some minutes.
fn create<F: Flavored>(host: &Host, set: &Set, missing: usize) -> Report {
    if refusal::is_expected(host, &set.meta.uid) {
        return Report::default();
    }
    debug!(
        host,
        "too few pods for {}, creating {missing}",
        set.wanted()
    );
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
    let results = host
        .batch()
        .extend(std::iter::repeat_n(creation, missing))
        .slow_start(1)
        .run();
    refusal::remember(host, &set.meta.uid, &results);
    let name = |answer: Answer| created_name(&answer).unwrap_or_default();
    scale::report_creations(results.into_iter().map(|result| result.map(name)))
}

/// Deletes surplus pods, in the order of [`rank`].
fn delete<F: Flavored>(
    host: &Host,
    set: &Set,
    active: &[Pod],
    surplus: usize,
) -> Result<Report, Error> {
    debug!(
        host,
        "too many pods for {}, deleting {surplus}",
        set.wanted()
    );
    let now = host.now();
    let candidates = candidates(host, set, active)?;
    let surplus = surplus.min(candidates.len().saturating_sub(set.wanted()));
    let is_choice = surplus < candidates.len();
    let related = if is_choice {
        related_pods::<F>(host, set)?
    } else {
        RelatedPods::default()
    };
    let candidates = match host.feature_enabled(describe::POD_DELETION_COST) {
        true => candidates,
        false => rank::without_costs(candidates),
    };
    let to_delete = rank::least_useful(&candidates, surplus, &related, now);
    if let (true, Some(metric)) = (is_choice, F::FLAVOR.age_ratio) {
        for ratio in rank::age_ratios(&candidates, &to_delete, now) {
            host.metrics().observe(metric, &[], ratio);
        }
    }
    let deletions = to_delete.into_iter().map(|pod| (pod, scale::deletion(pod)));
    let results = host.tagged_batch().extend(deletions).run().into_iter();
    Ok(scale::report_deletions(
        results.map(|(pod, result)| (pod, result.map(drop))),
    ))
}

/// Reads the active pods with the fields needed to rank them. Pods that were deleted in the
/// meantime are left out.
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

/// Counts the pods of all sets of this set's owner by node, if the flavor considers them.
fn related_pods<F: Flavored>(host: &Host, set: &Set) -> Result<RelatedPods, Error> {
    let mut related = RelatedPods::default();
    let owner = set.meta.controller().filter(|_| F::FLAVOR.has_siblings);
    let Some(owner) = owner else {
        return Ok(related);
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
        host.list::<RelatedPod>()
            .namespace(namespace)
            .labels(&selector)
            .each(|pod| {
                related.add(pod);
                Ok(())
            })?;
    }
    Ok(related)
}

/// Whether to leave a status update to the next reconcile. A status that only has a newer
/// generation can wait: the pods that were just created or deleted soon cause another reconcile,
/// and one write is enough. False if an update was delayed recently: if pods fail as soon as they
/// are created, every reconcile creates some.
fn delay_status(host: &Host, set: &Set) -> bool {
    let waited = host.memo().get::<bool>(&set.meta.uid).is_some();
    !waited
        && host
            .memo()
            .put(&set.meta.uid, &true, "", STATUS_DELAY)
            .is_ok()
}

/// Writes the status. If that fails, usually because the set has changed since it was read, it
/// tries once more on the latest version. That is correct, because the status has its own observed
/// generation.
fn write_status<F: Flavored>(host: &Host, set: &Set, status: &Status) -> Result<(), Error> {
    let kind = F::FLAVOR.kind;
    let Err(first) = host.update_status(kind, &set.meta, status) else {
        return Ok(());
    };
    debug!(
        host,
        "updating the status of {} failed: {first}",
        set.meta.key()
    );
    let newest = host
        .live()
        .get::<Of<F, Presence>>(&set.meta.namespace, &set.meta.name)?;
    match newest {
        Some(Of { view: newest, .. }) if newest.meta.uid == set.meta.uid => {
            host.update_status(kind, &newest.meta, status)?;
            Ok(())
        }
        _ => Err(Error::failed(format!("{} was deleted", set.meta.key()))),
    }
}
