//! statefulset-controller: runs pods with stable names and storage.
//!
//! `reconcile` claims the set's revisions and pods, brings the pods to the wanted state, and updates the status. Each
//! decision is a pure function: which revision is wanted ([`history`]), which pods are wanted ([`members`]), the next
//! step for each pod ([`plan`]), the owners of its claims ([`retention`]), and which pods an update replaces
//! ([`update`], [`recreate`]). The writes go through [`act`].
//!
//! A rollout has no state besides the cluster's: every reconcile takes the steps that are possible
//! now and ends. A change of a pod triggers the next one.
//!
//! Upstream: pkg/controller/statefulset/stateful_set.go: sync, syncStatefulSet.
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: UpdateStatefulSet, performUpdate, updateStatefulSet,
//! updateStatefulSetStatus.
//! Upstream: pkg/controller/statefulset/stateful_set_status_updater.go: UpdateStatefulSetStatus.

pub mod act;
pub mod claims;
pub mod describe;
pub mod equivalence;
pub mod events;
pub mod history;
pub mod identity;
pub mod members;
pub mod metrics;
pub mod ownership;
pub mod plan;
pub mod pod;
pub mod recreate;
pub mod repair;
pub mod retention;
pub mod status;
pub mod update;
pub mod views;

#[cfg(test)]
mod tests;

use flyball_sdk::prelude::*;
use flyball_sdk::{debug, error};

use act::Actor;
use claims::Claims;
use history::History;
use members::{Members, Replica};
use plan::{Need, Situation, Step, rounds};
use update::Budget;
use views::{Pod, Presence, StatefulSet, Status};

pub struct StatefulSetController;

export!(StatefulSetController);

impl Controller for StatefulSetController {
    fn describe() -> Description {
        describe::describe()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(mut set) = host.get_by_key::<StatefulSet>(key)? else {
            // The set was deleted. The garbage collector deletes its pods and revisions.
            return Ok(Outcome::Done);
        };
        if !host.release_at_least(37) {
            // Before Kubernetes 1.37, the controller didn't know conditions, and dropped those of others.
            set.status.conditions.clear();
        }
        let selector = match LabelSelector::of_json(set.selector.text().as_bytes()) {
            Ok(selector) => selector,
            Err(error) => {
                error!(host, "the selector of {key} is invalid: {error}");
                return Ok(Outcome::Done);
            }
        };
        let mut revisions = flyball_revisions::list(host, &set.meta, &selector)?;
        let recheck = || ownership::recheck(host, &set);
        flyball_revisions::adopt(host, &set.meta, StatefulSet::KIND, &mut revisions, recheck)?;
        let pods = ownership::pods(host, &set, &selector)?;
        let history = History::resolve(host, &set, revisions)?;

        let now = host.now();
        let Synced { mut status, result } = sync(host, &set, &history, &pods, now)?;
        let written = save(host, &set, &mut status);
        let truncated = history.truncate(host, &set, &pods);
        let errors = [result, written, truncated].map(Result::err);
        if let Some(error) = Error::join(errors.into_iter().flatten()) {
            return Err(error);
        }
        let requeue_after = status::next_availability(&set, &pods, &status, now, host.now());
        Ok(requeue_after.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

/// The result of a reconcile of the pods.
struct Synced {
    status: Status,
    result: Result<(), Error>,
}

/// Brings the pods to the wanted state, as far as that is possible now. The status counts the pods as
/// they were before, and is valid even if a step failed.
///
/// # Errors
/// A read failed, so that no status is known.
fn sync(
    host: &Host,
    set: &StatefulSet,
    history: &History,
    pods: &[Pod],
    now: Time,
) -> Result<Synced, Error> {
    recreate::check(host, set)?;
    if set.meta.is_deleting() {
        return Ok(Synced {
            status: status::counted(set, pods, history.status(set), now),
            result: Ok(()),
        });
    }
    let members = Members::of(set, pods);
    let all = members.replicas.iter().chain(&members.condemned);
    let claims = Claims::read(host, set, all.map(|member| member.ordinal))?;
    let actor = Actor {
        host: *host,
        set,
        history,
        claims: &claims,
    };
    let situation = Situation {
        set,
        claims: &claims,
        now,
    };
    let mut status = status::counted(set, members.pods(), history.status(set), now);
    let result = settle_and_replace(&actor, &situation, &members, &mut status);
    Ok(Synced { status, result })
}

/// Takes the steps that are possible now, and notes in the status what it would not count.
fn settle_and_replace(
    actor: &Actor,
    situation: &Situation,
    members: &Members,
    status: &mut Status,
) -> Result<(), Error> {
    let now = situation.now;
    if delete_outdated(actor, members, status, now)? && settle(actor, situation, members)? {
        status.current_replicas -= replace(actor, members, now)? as i32;
    }
    Ok(())
}

/// Deletes the pods of other revisions if the strategy is Recreate. Returns whether none is left.
fn delete_outdated(
    actor: &Actor,
    members: &Members,
    status: &mut Status,
    now: Time,
) -> Result<bool, Error> {
    let Actor {
        host, set, history, ..
    } = actor;
    if !set.is_recreated() {
        return Ok(true);
    }
    let outdated = recreate::outdated(members, history.update());
    for round in rounds(&outdated, false, batch_size(host)?) {
        let remaining = round.iter().filter(|pod| !pod.is_terminating());
        actor.delete(remaining.copied())?;
    }
    let is_updated = status.current_revision == status.update_revision;
    if !outdated.is_empty() {
        recreate::progress(status, "Deleting old revision pods", now);
    } else if !is_updated {
        let message = "Waiting for new-revision pods to be created";
        recreate::progress(status, message, now);
    }
    Ok(outdated.is_empty())
}

/// Creates and repairs the replicas and deletes the condemned pods. Returns whether an update may
/// replace pods: in order, all replicas have to be available and no pod may be condemned.
fn settle(actor: &Actor, situation: &Situation, members: &Members) -> Result<bool, Error> {
    let Actor { host, set, .. } = actor;
    let (is_ordered, max) = (set.is_ordered(), batch_size(host)?);
    for round in rounds(&members.replicas, is_ordered, max) {
        let steps: Vec<Step> = round.iter().map(|one| situation.replica(one)).collect();
        let needs = steps.iter().map(|step| step.need);
        let needs: Vec<(Replica, Need)> = round.iter().copied().zip(needs).collect();
        actor.round(&needs)?;
        if is_ordered && steps.iter().any(|step| step.blocks) {
            let ordinals = needs.iter().map(|(replica, _)| replica.ordinal);
            debug!(
                host,
                "waiting for the pods {:?}",
                ordinals.collect::<Vec<_>>()
            );
            return Ok(false);
        }
    }
    for round in rounds(&members.condemned, is_ordered, max) {
        let differ = |one: &&Replica| !situation.claims_match(one);
        let changed: Vec<Replica> = round.iter().filter(differ).copied().collect();
        actor.condemn_claims(&changed)?;
    }
    let first_unavailable = members.first_unavailable(set.min_ready(), situation.now);
    for round in rounds(&members.condemned, is_ordered, max) {
        let is_due = |one: &&Replica| situation.is_due(one, first_unavailable);
        let due = round.iter().filter(is_due);
        actor.delete(due.filter_map(|one| one.pod))?;
        if is_ordered {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Deletes pods of other revisions, as far as the update strategy allows it, and returns their
/// number.
fn replace(actor: &Actor, members: &Members, now: Time) -> Result<usize, Error> {
    let Actor {
        host, set, history, ..
    } = actor;
    let max_unavailable = max_unavailable(host, set)?;
    let is_two_phase = !set.is_ordered() && host.release_at_least(37);
    let budget = max_unavailable.map(|max| Budget { max, is_two_phase });
    let update = update::next(set, &members.replicas, history.update(), budget, now);
    if let Some(pods) = update.unavailable {
        metrics::set_unavailable(host, set, pods);
    }
    actor.delete(update.to_delete)
}

/// Writes the status if it has changed. If the set has changed since it was read, it tries once more
/// on the latest version. That is correct, because the status has its own observed generation.
fn save(host: &Host, set: &StatefulSet, status: &mut Status) -> Result<(), Error> {
    let is_of_any_strategy = host.release_at_least(37);
    if status::complete(set, status, is_of_any_strategy) && set.is_recreated() {
        recreate::complete(status, host.now());
    }
    if let Some(pods) = max_unavailable(host, set)? {
        metrics::set_max_unavailable(host, set, pods);
    }
    if !status.replaces(&set.status) {
        return Ok(());
    }
    match host.update_status(StatefulSet::KIND, &set.meta, status) {
        Err(error) if error.is_conflict() => {
            let Meta {
                namespace, name, ..
            } = &set.meta;
            let newest = host.live().get::<Presence>(namespace, name)?;
            let newest = newest.filter(|newest| newest.meta.uid == set.meta.uid);
            let newest = newest.ok_or(error)?;
            host.update_status(StatefulSet::KIND, &newest.meta, status)?;
        }
        result => {
            result?;
        }
    }
    Ok(())
}

/// How many pods may be unavailable during an update; `None` if the gate is off.
fn max_unavailable(host: &Host, set: &StatefulSet) -> Result<Option<usize>, Error> {
    let is_enabled = host.feature_enabled(describe::MAX_UNAVAILABLE);
    is_enabled.then(|| update::max_unavailable(set)).transpose()
}

/// How many pods are processed at once at most.
fn batch_size(host: &Host) -> Result<usize, Error> {
    host.config_number(describe::MAX_BATCH_SIZE, describe::DEFAULT_BATCH_SIZE, 1..)
}
