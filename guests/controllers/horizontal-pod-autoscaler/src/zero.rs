//! Targets without replicas (KEP-2021). A user stops the autoscaling of a target by scaling it to zero. With the
//! feature gate `HPAScaleToZero`, the controller itself may scale to zero; a condition then records that the
//! autoscaling continues.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: shouldComputeMetricsForZeroReplicas,
//! getScaledToZeroConditionStatus.

use crate::status;
use crate::views::{Autoscaler, SCALED_TO_ZERO};
use crate::{Run, settings::Settings};

/// Whether the autoscaling of a target without replicas continues.
pub fn goes_on(autoscaler: &Autoscaler, settings: &Settings) -> bool {
    let spec = &autoscaler.spec;
    has_scaled(autoscaler, settings)
        && (spec.min_replicas() != 0 || spec.has_metrics_without_pods())
}

/// Whether the controller itself has scaled the target to zero.
pub fn has_scaled(autoscaler: &Autoscaler, settings: &Settings) -> bool {
    settings.scale_to_zero && status::is_scaled_to_zero(autoscaler)
}

/// Sets the condition after a change of the replicas.
pub(crate) fn record(run: &mut Run<'_>, from: i32, to: i32) {
    if !run.settings.scale_to_zero {
        run.forget_zero();
        return;
    }
    let spec = &run.autoscaler.spec;
    let is_zero =
        from > 0 && to == 0 && spec.min_replicas() == 0 && spec.has_metrics_without_pods();
    let why = if is_zero {
        (
            "ScaledToZero",
            "the HPA controller scaled the workload to zero",
        )
    } else {
        (
            "NotScaledToZero",
            "the HPA controller did not scale the workload to zero",
        )
    };
    status::set(&mut run.status, SCALED_TO_ZERO, is_zero, why, run.now);
}
