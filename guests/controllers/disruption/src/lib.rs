//! disruption-controller: keeps the status of PodDisruptionBudgets, from which the API server decides whether a pod
//! may be evicted.
//!
//! `reconcile` names the steps. Each decision is a pure function:
//!
//! 1. [`pods`] lists the pods that a budget selects; [`multiple`] warns about pods of several budgets.
//! 2. [`controllers`] sums the replicas of the pods' controllers; [`scale`] reads the scales of controllers that aren't
//!    cached.
//! 3. [`disrupted`] decides which evicted pods are still awaited, and counts healthy pods.
//! 4. [`status`] computes the status. If a step fails, it allows no disruption.
//!
//! The other queues hold budgets whose evicted pods are due ([`describe::RECHECK`]), and pods that were not deleted
//! although their condition announces it ([`stale`]).
//!
//! Upstream: pkg/controller/disruption/disruption.go: sync, trySync, failSafe, getExpectedPodCount.

pub mod controllers;
pub mod describe;
pub mod disrupted;
pub mod multiple;
pub mod pods;
pub mod scale;
pub mod settings;
pub mod stale;
pub mod status;
pub mod views;

#[cfg(test)]
mod tests;

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{debug, error};

use controllers::Total;
use disrupted::Disrupted;
use settings::Settings;
use status::Counts;
use views::{Budget, Pod};

/// The controller. Keys are budgets, or pods in the queue of [`stale`] ones.
pub struct Disruption;

export!(Disruption);

impl Controller for Disruption {
    fn describe() -> Description {
        describe::describe()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let settings = Settings::read(host)?;
        match request.queue.as_str() {
            describe::RECHECK => {
                host.queue().add(describe::QUEUE, &request.key)?;
                Ok(Outcome::Done)
            }
            describe::STALE_PODS => {
                stale::reconcile(host, &request.key, settings.stale_pod_timeout)
            }
            _ => reconcile_budget(host, &request.key, &settings),
        }
    }
}

/// Updates the status of the budget with this key. A budget whose status can't be computed allows no disruption, and is
/// not retried until something changes.
fn reconcile_budget(host: &Host, key: &Key, settings: &Settings) -> Result<Outcome, Error> {
    let Some(budget) = host.get_by_key::<Budget>(key)? else {
        return Ok(Outcome::Done);
    };
    match update(host, &budget, settings) {
        Ok(recheck) => {
            if let Some(delay) = recheck {
                host.queue().add_after(describe::RECHECK, key, delay)?;
            }
        }
        // Usually the API server has counted an eviction in the meantime. The retry takes it into account.
        Err(error) if error.api().is_some_and(ApiError::is_conflict) => return Err(error),
        Err(error) => {
            error!(host, "failed to compute the status of {key}: {error}");
            let status = status::failed(&budget, &error.message(), host.now());
            if status != budget.status {
                host.update_status(Budget::KIND, &budget.meta, &status)?;
            }
        }
    }
    Ok(Outcome::Done)
}

/// Computes and writes the status. Returns the time until an evicted pod is due.
fn update(host: &Host, budget: &Budget, settings: &Settings) -> Result<Option<Duration>, Error> {
    let pods = pods::selected(host, budget)?;
    multiple::warn(host, budget)?;
    let (total, desired) = expected(host, budget, &pods, settings)?;
    warn_about_unmanaged(host, budget, &total.unmanaged);
    let now = host.now();
    let timeout = settings.deletion_timeout;
    let disrupted = Disrupted::of(&pods, &budget.status.disrupted_pods, timeout, now);
    disrupted::warn(host, budget, &disrupted.expired);
    let counts = Counts {
        expected: total.replicas,
        desired,
        healthy: disrupted::healthy(&pods, &disrupted.awaited, timeout, now),
    };
    let recheck = disrupted.next_due.map(|due| due.from_now(now));
    let status = status::computed(budget, &counts, disrupted.awaited, now);
    if !status.repeats(&budget.status) {
        host.update_status(Budget::KIND, &budget.meta, &status)?;
    }
    Ok(recheck)
}

/// Returns the expected pods, and how many of them must be healthy.
fn expected(
    host: &Host,
    budget: &Budget,
    pods: &[Pod],
    settings: &Settings,
) -> Result<(Total, i32), Error> {
    let compute = || {
        let total = match (&budget.max_unavailable, &budget.min_available) {
            (None, None) => Total::default(),
            // A number of pods needs no total, so the pods may have any controllers, or none.
            (None, Some(IntOrPercent::Int(_))) => Total::of_pods(pods),
            _ => controllers::total(host, &budget.meta.namespace, pods, settings)?,
        };
        let desired = status::desired_healthy(budget, total.replicas)?;
        Ok((total, desired))
    };
    compute().inspect_err(|error: &Error| {
        let message = format!(
            "Failed to calculate the number of expected pods: {}",
            error.message()
        );
        let about = budget.meta.reference(Budget::KIND);
        host.emit(Event::warning(
            &about,
            "CalculateExpectedPodCountFailed",
            &message,
        ));
    })
}

/// Warns that pods without a controller are not counted.
fn warn_about_unmanaged(host: &Host, budget: &Budget, unmanaged: &[String]) {
    if unmanaged.is_empty() {
        return;
    }
    debug!(host, "pods without a controller: {}", unmanaged.join(", "));
    let message = format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of \
         the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods \
         please set \".spec.minAvailable\" field of the PDB to an integer value.",
        flyball_go_format::label_selector(&budget.selector)
    );
    let about = budget.meta.reference(Budget::KIND);
    host.emit(Event::warning(&about, "UnmanagedPods", &message));
}
