//! deployment-controller: rolls ReplicaSets to a new pod template.
//!
//! [`DeploymentController`] reads like its description: `reconcile` finds what the Deployment owns
//! and names the phase that it is in; each phase is a line of steps. What a step decides is a pure
//! function ([`rolling`], [`recreate`], [`scale`], [`rollback`], [`history`], [`create`],
//! [`progress`]); what it writes goes through [`Rollout`].
//!
//! A rollout has no state but the cluster's: every reconcile finds out anew where it stands, goes
//! as far as it can, and waits for a ReplicaSet to change.

pub mod bounds;
pub mod claim;
pub mod condition;
pub mod create;
pub mod history;
pub mod progress;
pub mod recreate;
pub mod revision;
pub mod rollback;
pub mod rolling;
pub mod rollout;
pub mod scale;
pub mod sets;
pub mod template;
pub mod views;

#[cfg(test)]
mod tests;

use flyball_sdk::describe::queue;
use flyball_sdk::prelude::*;
use flyball_sdk::warning;

use rollout::{Rollout, is_namespace_terminating};
use sets::Sets;
use views::{Deployment, Pod, ReplicaSet};

/// The controller of Deployments.
pub struct DeploymentController;

export!(DeploymentController);

impl Controller for DeploymentController {
    fn describe() -> Description {
        use flyball_sdk::describe::Queue;

        describe("deployment-controller", env!("CARGO_PKG_VERSION"))
            .event_source("deployment-controller")
            .concurrency(5)
            .queue_with(Queue {
                max_retries: Some(15),
                ..queue("deployment")
            })
            // Whole, because they are modified: the host then builds what it puts from its cache.
            .watch(
                watch::<Deployment>()
                    .fields(&["."])
                    .enqueue(Mapping::itself()),
            )
            .watch(
                watch::<ReplicaSet>()
                    .fields(&["."])
                    .enqueue(Mapping::controller(Deployment::KIND))
                    .enqueue(Mapping::selecting(Deployment::KIND, "spec.selector").orphans()),
            )
            // Recreate waits for the last pod to go.
            .watch(
                watch::<Pod>().enqueue(
                    Mapping::selecting(Deployment::KIND, "spec.selector")
                        .whose("spec.strategy.type", "Recreate")
                        .on([DeltaType::Deleted]),
                ),
            )
            .allow(Deployment::KIND, ["get", "update"])
            .allow_on(Deployment::KIND, "status", ["update"])
            .allow_on(Deployment::KIND, "finalizers", ["update"])
            .allow(
                ReplicaSet::KIND,
                ["create", "delete", "get", "patch", "update"],
            )
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(deployment) = host.get_key::<Deployment>(&request.key)? else {
            // It is gone. Its ReplicaSets are the garbage collector's.
            return Ok(Outcome::Done);
        };
        if deployment.selects_everything() {
            return refuse_to_select_everything(host, deployment);
        }
        let owned = claim::claim(host, &deployment)?;
        let mut rollout = Rollout::new(*host, deployment, owned);
        match step(&mut rollout) {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                // What was found out on the way is said even so.
                if let Err(unsaid) = rollout.save() {
                    warning!(host, "the status was not written: {unsaid}");
                }
                let is_futile = error.api().is_some_and(is_namespace_terminating);
                if is_futile {
                    Ok(Outcome::Done)
                } else {
                    Err(error)
                }
            }
        }
    }
}

/// What a Deployment is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being deleted: only its status is kept.
    Deleting,
    /// It is paused: it can be resized, but does not roll.
    Paused,
    /// It returns to this revision (0: the one before).
    RollingBack(i64),
    /// Its size was changed: the sizes come first.
    Resized,
    /// It rolls, all pods at once.
    Recreating,
    /// It rolls, step by step.
    Rolling,
    /// It has a strategy that nobody knows.
    Unknown,
}

/// The phase that a Deployment is in.
pub fn phase(deployment: &Deployment, sets: &Sets) -> Phase {
    match deployment.strategy.as_str() {
        _ if deployment.meta.is_deleting() => Phase::Deleting,
        _ if deployment.paused => Phase::Paused,
        _ if rollback::wish(deployment).is_some() => {
            Phase::RollingBack(rollback::wish(deployment).unwrap_or(0))
        }
        _ if scale::was_resized(deployment, sets) => Phase::Resized,
        "Recreate" => Phase::Recreating,
        "RollingUpdate" => Phase::Rolling,
        _ => Phase::Unknown,
    }
}

/// Takes the steps of the phase that the Deployment is in, and says in its status how it stands.
fn step(rollout: &mut Rollout) -> Result<Outcome, Error> {
    let phase = phase(&rollout.deployment, &rollout.sets);
    if phase != Phase::Deleting {
        progress::note_pause(&mut rollout.deployment, rollout.now);
    }
    rollout.keep_up()?;
    match phase {
        Phase::Deleting => report(rollout),
        Phase::Paused => {
            resize(rollout)?;
            if rollback::wish(&rollout.deployment).is_none() {
                rollout.clean_up()?;
            }
            report(rollout)
        }
        Phase::RollingBack(wish) => {
            rollout.make_new_set()?;
            rollout.roll_back(wish)?;
            Ok(Outcome::Done)
        }
        Phase::Resized => {
            resize(rollout)?;
            report(rollout)
        }
        Phase::Recreating => {
            recreate(rollout)?;
            report_progress(rollout)
        }
        Phase::Rolling => {
            roll(rollout)?;
            report_progress(rollout)
        }
        Phase::Unknown => Err(Error::terminal(format!(
            "unexpected deployment strategy type: {}",
            rollout.deployment.strategy
        ))),
    }
}

/// Gives every ReplicaSet its share of the Deployment's size.
fn resize(rollout: &mut Rollout) -> Result<bool, Error> {
    rollout.resize(&scale::shares(&rollout.deployment, &rollout.sets))
}

/// Grows the new ReplicaSet or, if it can't grow now, shrinks the old ones: first by broken pods.
fn roll(rollout: &mut Rollout) -> Result<(), Error> {
    rollout.make_new_set()?;
    if rollout.resize(&rolling::grow(&rollout.deployment, &rollout.sets))? {
        return Ok(());
    }
    let spare = rolling::spare(&rollout.deployment, &rollout.sets);
    if spare > 0 {
        let dropped = rollout.resize(&rolling::drop_broken(&rollout.sets, spare))?;
        let shrunk =
            rollout.resize(&rolling::drop_available(&rollout.deployment, &rollout.sets))?;
        if dropped || shrunk {
            return Ok(());
        }
    }
    clean_up_if_complete(rollout)
}

/// Empties the old ReplicaSets, waits for their pods to be gone, and fills the new one.
fn recreate(rollout: &mut Rollout) -> Result<(), Error> {
    if rollout.resize(&recreate::shut_down(&rollout.sets))? || rollout.old_pods_run()? {
        return Ok(());
    }
    rollout.make_new_set()?;
    rollout.resize(&recreate::fill(&rollout.deployment, &rollout.sets))?;
    clean_up_if_complete(rollout)
}

fn clean_up_if_complete(rollout: &mut Rollout) -> Result<(), Error> {
    if rollout.deployment.is_complete(&rollout.deployment.status) {
        rollout.clean_up()?;
    }
    Ok(())
}

/// Says in the status what the ReplicaSets count.
fn report(rollout: &mut Rollout) -> Result<Outcome, Error> {
    rollout.deployment.status = progress::counted(&rollout.deployment, &rollout.sets, rollout.now);
    rollout.save()?;
    Ok(Outcome::Done)
}

/// Says in the status how the rollout goes, and looks again when it would be late.
fn report_progress(rollout: &mut Rollout) -> Result<Outcome, Error> {
    rollout.deployment.status = progress::rolled(&rollout.deployment, &rollout.sets, rollout.now);
    rollout.save()?;
    Ok(progress::look_again(&rollout.deployment, rollout.now)
        .map_or(Outcome::Done, Outcome::RequeueAfter))
}

/// A Deployment that would take all pods of its namespace gets none, and is told so.
fn refuse_to_select_everything(host: &Host, deployment: Deployment) -> Result<Outcome, Error> {
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    host.emit(Event::warning(
        &deployment.meta.reference(Deployment::KIND),
        "SelectingAll",
        message,
    ));
    let mut rollout = Rollout::new(*host, deployment, Vec::new());
    let Deployment { meta, status, .. } = &mut rollout.deployment;
    status.observed_generation = status.observed_generation.max(meta.generation);
    rollout.save()?;
    Ok(Outcome::Done)
}
