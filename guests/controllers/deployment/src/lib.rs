//! deployment-controller: rolls ReplicaSets to a new pod template.
//!
//! `reconcile` claims the Deployment's ReplicaSets and determines its [`Phase`]; each phase is a
//! short sequence of steps. The decision of each step is a pure function ([`rolling`],
//! [`recreate`], [`scale`], [`rollback`], [`history`], [`create`], [`progress`]); its writes go
//! through [`Rollout`].
//!
//! A rollout has no state besides the cluster's: every reconcile determines the phase again, takes
//! the steps that are possible now and ends. A change of a ReplicaSet triggers the next one.
//!
//! Upstream: pkg/controller/deployment/deployment_controller.go: NewDeploymentController, syncDeployment, deletePod.
//! Upstream: pkg/controller/deployment/sync.go: sync, syncStatusOnly.
//! Upstream: pkg/controller/deployment/rolling.go: rolloutRolling.
//! Upstream: pkg/controller/deployment/recreate.go: rolloutRecreate.

pub mod bounds;
pub mod condition;
pub mod create;
pub mod difference;
pub mod history;
pub mod ownership;
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
use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;
use flyball_sdk::warning;

use rollout::Rollout;
use sets::Sets;
use views::{Deployment, Pod, ReplicaSet, Status};

/// The feature gate of `terminatingReplicas` (KEP-3973).
const TERMINATING_REPLICAS: &str = "DeploymentReplicaSetTerminatingReplicas";

pub struct DeploymentController;

export!(DeploymentController);

impl Controller for DeploymentController {
    fn describe() -> Description {
        use flyball_sdk::describe::Queue;

        describe("deployment-controller", env!("CARGO_PKG_VERSION"))
            .event_source("deployment-controller")
            .concurrency(5)
            .feature_gate(TERMINATING_REPLICAS, true)
            .queue_with(Queue {
                max_retries: Some(15),
                ..queue("deployment")
            })
            // All fields, because Deployments are updated: the host builds the update from its
            // cache.
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
            // Recreate waits until the last old pod is deleted.
            .watch(
                watch::<Pod>().enqueue(
                    Mapping::selecting(Deployment::KIND, "spec.selector")
                        .whose("spec.strategy.type", "Recreate")
                        .on([DeltaType::Deleted]),
                ),
            )
            .permission(Deployment::KIND, ["get", "update"])
            .permission_on(Deployment::KIND, "status", ["update"])
            .permission_on(Deployment::KIND, "finalizers", ["update"])
            .permission(
                ReplicaSet::KIND,
                ["create", "delete", "get", "patch", "update"],
            )
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(deployment) = host.get_by_key::<Deployment>(&request.key)? else {
            // The Deployment was deleted. The garbage collector deletes its ReplicaSets.
            return Ok(Outcome::Done);
        };
        if deployment.selects_everything() {
            return refuse_to_select_everything(host, deployment);
        }
        let owned = ownership::replica_sets(host, &deployment)?;
        let mut rollout = Rollout::new(*host, deployment, owned);
        match step(&mut rollout) {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                // The status is saved even if a step fails.
                if let Err(save_error) = rollout.save() {
                    warning!(host, "the status was not written: {save_error}");
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

/// The task of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The Deployment is being deleted: only its status is updated.
    Deleting,
    /// It is paused: it can be resized, but does not roll out.
    Paused,
    /// It rolls back to this revision; 0 is the previous one.
    RollingBack(i64),
    /// Its size was changed: the ReplicaSets are scaled before anything else.
    Resized,
    /// It rolls out by replacing all pods at once.
    Recreating,
    /// It rolls out by replacing pods step by step.
    Rolling,
    /// Its strategy is unknown.
    Unknown,
}

/// Returns the phase of a Deployment.
pub fn phase(deployment: &Deployment, sets: &Sets) -> Phase {
    match deployment.strategy.as_str() {
        _ if deployment.meta.is_deleting() => Phase::Deleting,
        _ if deployment.paused => Phase::Paused,
        _ if rollback::requested(deployment).is_some() => {
            Phase::RollingBack(rollback::requested(deployment).unwrap_or(0))
        }
        _ if scale::was_resized(deployment, sets) => Phase::Resized,
        "Recreate" => Phase::Recreating,
        "RollingUpdate" => Phase::Rolling,
        _ => Phase::Unknown,
    }
}

/// Takes the steps of the Deployment's phase and updates its status.
fn step(rollout: &mut Rollout) -> Result<Outcome, Error> {
    let phase = phase(&rollout.deployment, &rollout.sets);
    if phase != Phase::Deleting {
        progress::record_pause(&mut rollout.deployment, rollout.now);
    }
    rollout.sync_new_set()?;
    match phase {
        Phase::Deleting => report(rollout),
        Phase::Paused => {
            resize(rollout)?;
            if rollback::requested(&rollout.deployment).is_none() {
                rollout.clean_up()?;
            }
            report(rollout)
        }
        Phase::RollingBack(requested) => {
            rollout.create_new_set()?;
            rollout.roll_back(requested)?;
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

/// Distributes the Deployment's size over its ReplicaSets.
fn resize(rollout: &mut Rollout) -> Result<bool, Error> {
    rollout.resize(&scale::shares(&rollout.deployment, &rollout.sets))
}

/// Scales up the new ReplicaSet or, if that is not possible now, scales down the old ones:
/// unavailable pods first.
fn roll(rollout: &mut Rollout) -> Result<(), Error> {
    rollout.create_new_set()?;
    if rollout.resize(&rolling::resize_new(&rollout.deployment, &rollout.sets))? {
        return Ok(());
    }
    match scale_down_old(rollout) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        // The rollout can't proceed, but its status is updated, so that the progress deadline is reported. As in
        // kube-controller-manager, the error causes no retry; the next change or the deadline does.
        Err(error) => warning!(
            rollout.host,
            "an old ReplicaSet was not scaled down: {error}"
        ),
    }
    clean_up_if_complete(rollout)
}

/// Scales down the old ReplicaSets. Returns whether any size changed.
fn scale_down_old(rollout: &mut Rollout) -> Result<bool, Error> {
    let max_scaled_down = rolling::max_scaled_down(&rollout.deployment, &rollout.sets);
    if max_scaled_down <= 0 {
        return Ok(false);
    }
    let dropped = rollout.resize(&rolling::scale_down_unavailable(
        &rollout.sets,
        max_scaled_down,
    ))?;
    let shrunk = rollout.resize(&rolling::scale_down_available(
        &rollout.deployment,
        &rollout.sets,
    ))?;
    Ok(dropped || shrunk)
}

/// Scales down the old ReplicaSets, waits until their pods are deleted, and scales up the new one.
fn recreate(rollout: &mut Rollout) -> Result<(), Error> {
    if rollout.resize(&recreate::shut_down(&rollout.sets))? || rollout.old_pods_run()? {
        return Ok(());
    }
    rollout.create_new_set()?;
    rollout.resize(&recreate::fill(&rollout.deployment, &rollout.sets))?;
    clean_up_if_complete(rollout)
}

fn clean_up_if_complete(rollout: &mut Rollout) -> Result<(), Error> {
    if rollout.deployment.is_complete(&rollout.deployment.status) {
        rollout.clean_up()?;
    }
    Ok(())
}

/// Updates the status's counters and the `Available` condition.
fn report(rollout: &mut Rollout) -> Result<Outcome, Error> {
    let status = progress::counted(&rollout.deployment, &rollout.sets, rollout.now);
    set_status(rollout, status);
    rollout.save()?;
    Ok(Outcome::Done)
}

/// Updates the status including progress, and requeues for the progress deadline.
fn report_progress(rollout: &mut Rollout) -> Result<Outcome, Error> {
    let status = progress::rolled(&rollout.deployment, &rollout.sets, rollout.now);
    set_status(rollout, status);
    rollout.save()?;
    Ok(progress::requeue_after(&rollout.deployment, rollout.now)
        .map_or(Outcome::Done, Outcome::RequeueAfter))
}

/// Without its feature gate, the status does not say how many pods are being deleted.
fn set_status(rollout: &mut Rollout, status: Status) {
    let counts_terminating = rollout.host.feature_enabled(TERMINATING_REPLICAS);
    rollout.deployment.status = Status {
        terminating_replicas: status.terminating_replicas.filter(|_| counts_terminating),
        ..status
    };
}

/// Reports a Deployment with an empty selector: it would select all pods of its namespace, so it
/// gets none.
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
