//! The status of a budget.
//!
//! Upstream: pkg/controller/disruption/disruption.go: getExpectedPodCount, updatePdbStatus, failSafe.
//! Upstream: staging/src/k8s.io/component-helpers/apps/poddisruptionbudget/helpers.go:
//! UpdateDisruptionAllowedCondition.

use std::collections::BTreeMap;

use flyball_sdk::condition;
use flyball_sdk::prelude::*;

use crate::views::{Budget, DISRUPTION_ALLOWED, SYNC_FAILED, Status};

/// The numbers of pods that decide how many may be disrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub expected: i32,
    /// The number of pods that must be healthy.
    pub desired: i32,
    /// The number of healthy pods.
    pub healthy: i32,
}

/// Returns how many of the expected pods must be healthy. Percentages are rounded up, also in `maxUnavailable`.
///
/// # Errors
/// The budget has a text that isn't a percentage.
pub fn desired_healthy(budget: &Budget, expected: i32) -> Result<i32, Error> {
    match (&budget.max_unavailable, &budget.min_available) {
        (Some(most), _) => Ok(expected.saturating_sub(most.of(expected, true)?).max(0)),
        (None, Some(least)) => least.of(expected, true),
        (None, None) => Ok(0),
    }
}

/// Returns the status that follows from the numbers of pods.
pub fn computed(
    budget: &Budget,
    counts: &Counts,
    disrupted_pods: BTreeMap<String, Time>,
    now: Time,
) -> Status {
    // A budget without pods allows no disruption, so that it is safe when its first pods appear.
    let allowed = match counts.expected {
        1.. => counts.healthy.saturating_sub(counts.desired).max(0),
        _ => 0,
    };
    let (status, reason) = match allowed {
        1.. => ("True", "SufficientPods"),
        _ => ("False", "InsufficientPods"),
    };
    let generation = budget.meta.generation;
    let condition = Condition::new(DISRUPTION_ALLOWED, status, reason, "");
    Status {
        observed_generation: generation,
        disrupted_pods,
        disruptions_allowed: allowed,
        current_healthy: counts.healthy,
        desired_healthy: counts.desired,
        expected_pods: counts.expected,
        conditions: with_condition(budget, condition, generation, now),
    }
}

/// Returns the status of a budget whose numbers can't be computed. It allows no disruption. The other numbers stay, and
/// so does the generation that they were computed for.
pub fn failed(budget: &Budget, message: &str, now: Time) -> Status {
    let generation = budget.status.observed_generation;
    let condition = Condition::new(DISRUPTION_ALLOWED, "False", SYNC_FAILED, message);
    Status {
        disruptions_allowed: 0,
        conditions: with_condition(budget, condition, generation, now),
        ..budget.status.clone()
    }
}

fn with_condition(
    budget: &Budget,
    mut condition: Condition,
    generation: i64,
    now: Time,
) -> Vec<Condition> {
    condition.observed_generation = Some(generation).filter(|&generation| generation > 0);
    let mut conditions = budget.status.conditions.clone();
    condition::set(&mut conditions, condition, now);
    conditions
}
