//! The controller's metrics, with kube-controller-manager's names.
//!
//! Upstream: pkg/controller/podautoscaler/monitor/monitor.go: ObserveReconciliationResult,
//! ObserveMetricComputationResult, ObserveHPAAddition, ObserveHPADeletion, ObserveDesiredReplicas.
//! Upstream: pkg/controller/podautoscaler/monitor/metrics.go.

use std::time::Duration;

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;

use crate::views::{Autoscaler, Named};

/// Number of reconciles.
pub const RECONCILIATIONS: &str = "horizontal_pod_autoscaler_controller_reconciliations_total";
/// Duration of reconciles in seconds, measured with the host's clock.
pub const RECONCILIATION_DURATION: &str =
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds";
/// Number of computations for one metric.
pub const COMPUTATIONS: &str = "horizontal_pod_autoscaler_controller_metric_computation_total";
/// Duration of those in seconds.
pub const COMPUTATION_DURATION: &str =
    "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds";
/// Number of autoscalers.
pub const AUTOSCALERS: &str = "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers";
/// The replicas that an autoscaler last wanted.
pub const DESIRED: &str = "horizontal_pod_autoscaler_controller_desired_replicas";

/// The direction in which a reconcile or a metric scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    Up,
    Down,
    #[default]
    None,
}

impl Action {
    /// The change from one number of replicas to another.
    pub fn of(from: i32, to: i32) -> Self {
        match to.cmp(&from) {
            std::cmp::Ordering::Greater => Self::Up,
            std::cmp::Ordering::Less => Self::Down,
            std::cmp::Ordering::Equal => Self::None,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Up => "scale_up",
            Self::Down => "scale_down",
            Self::None => "none",
        }
    }
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The autoscaler itself is wrong.
    Spec,
    /// All others.
    Internal,
    None,
}

impl Fault {
    fn label(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Internal => "internal",
            Self::None => "none",
        }
    }
}

/// Declares the metrics.
pub fn declare(description: Description) -> Description {
    const LABELS: &[&str] = &["action", "error"];
    const METRIC_LABELS: &[&str] = &["action", "error", "metric_type"];
    let buckets = || {
        let bounds = (0..15).map(|power| 0.001 * f64::from(1 << power)).collect();
        MetricType::Histogram(bounds)
    };
    let values = "The label 'action' should be either 'scale_down', 'scale_up', or 'none'. The label 'error' should be either \
                  'spec', 'internal', or 'none'.";
    let metric_values = "The label 'metric_type' corresponds to HPA.spec.metrics[*].type";
    description
        .metric(
            MetricType::Counter,
            RECONCILIATIONS,
            LABELS,
            &format!("Number of reconciliations of HPA controller. {values}"),
        )
        .metric(
            buckets(),
            RECONCILIATION_DURATION,
            LABELS,
            &format!("The time(seconds) that the HPA controller takes to reconcile once. {values}"),
        )
        .metric(
            MetricType::Counter,
            COMPUTATIONS,
            METRIC_LABELS,
            &format!("Number of metric computations. {values} {metric_values}"),
        )
        .metric(
            buckets(),
            COMPUTATION_DURATION,
            METRIC_LABELS,
            &format!(
                "The time(seconds) that the HPA controller takes to calculate one metric. {values} {metric_values}"
            ),
        )
        .metric(
            MetricType::Gauge,
            AUTOSCALERS,
            &[],
            "Current number of controlled HPA objects.",
        )
        .metric(
            MetricType::Gauge,
            DESIRED,
            &["namespace", "hpa_name"],
            "Current desired replica count for HPA objects.",
        )
}

/// Counts a reconcile.
pub fn reconciled(host: &Host, action: Action, fault: Fault, took: Duration) {
    let labels = [action.label(), fault.label()];
    host.metrics().add(RECONCILIATIONS, &labels, 1.0);
    let seconds = took.as_secs_f64();
    host.metrics()
        .observe(RECONCILIATION_DURATION, &labels, seconds);
}

/// Counts the computation for a metric. After an error, the action is `none`.
pub fn computed(host: &Host, action: Action, fault: Fault, took: Duration, source: &str) {
    let action = match fault {
        Fault::None => action,
        _ => Action::None,
    };
    let labels = [action.label(), fault.label(), source];
    host.metrics().add(COMPUTATIONS, &labels, 1.0);
    let seconds = took.as_secs_f64();
    host.metrics()
        .observe(COMPUTATION_DURATION, &labels, seconds);
}

/// Counts the autoscalers.
///
/// # Errors
/// They can't be counted.
pub fn count(host: &Host) -> Result<(), Error> {
    let count = host.list::<Named>().count()?;
    host.metrics().set(AUTOSCALERS, &[], count.into());
    Ok(())
}

/// Sets the metric of the replicas that an autoscaler wants.
pub fn wants(host: &Host, autoscaler: &Autoscaler, replicas: i32) {
    let meta = &autoscaler.meta;
    host.metrics()
        .set(DESIRED, &[&meta.namespace, &meta.name], replicas.into());
}
