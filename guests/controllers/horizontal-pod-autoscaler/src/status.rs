//! The next status of an autoscaler.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: setCondition, setConditionInList, removeCondition,
//! setCurrentReplicasAndMetricsInStatus, setStatus, getScaledToZeroConditionStatus.

use flyball_sdk::condition;
use flyball_sdk::prelude::*;

use crate::views::{Autoscaler, MetricStatus, SCALED_TO_ZERO, SCALING_ACTIVE, Status};

/// Sets a condition of a status.
pub fn set(
    status: &mut Status,
    kind: &str,
    is_true: bool,
    (reason, message): (&str, &str),
    now: Time,
) {
    let text = if is_true { "True" } else { "False" };
    put(status, Condition::new(kind, text, reason, message), now);
}

/// Sets a condition of a status.
pub fn put(status: &mut Status, new: Condition, now: Time) {
    condition::set(&mut status.conditions, new, now);
}

/// Sets the condition that tells whether metrics yield replicas.
pub fn set_active(status: &mut Status, is_active: bool, why: (&str, &str), now: Time) {
    set(status, SCALING_ACTIVE, is_active, why, now);
}

/// Whether the controller itself has scaled the target to zero.
pub fn is_scaled_to_zero(autoscaler: &Autoscaler) -> bool {
    condition::get(&autoscaler.status.conditions, SCALED_TO_ZERO).is_some_and(Condition::is_true)
}

/// Sets the replicas and the values of the metrics. Fields that this version does not know are dropped, and so is the
/// generation if there is none.
pub fn set_replicas(
    status: &mut Status,
    generation: Option<i64>,
    current: i32,
    desired: i32,
    metrics: Vec<MetricStatus>,
    rescaled: Option<Time>,
) {
    *status = Status {
        observed_generation: generation,
        last_scale_time: rescaled.map(Time::to_second).or(status.last_scale_time),
        current_replicas: current,
        desired_replicas: desired,
        current_metrics: metrics,
        conditions: std::mem::take(&mut status.conditions),
    };
}
