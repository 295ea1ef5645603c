//! The controller's metrics, with kube-controller-manager's names. They exist only with the gate
//! `MaxUnavailableStatefulSet`.
//!
//! Upstream: pkg/controller/statefulset/metrics/metrics.go.

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;

use crate::views::StatefulSet;

const MAX_UNAVAILABLE: &str = "statefulset_controller_statefulset_max_unavailable";
const UNAVAILABLE: &str = "statefulset_controller_statefulset_unavailable_replicas";
const LABELS: &[&str] = &[
    "statefulset_namespace",
    "statefulset_name",
    "pod_management_policy",
];

/// Declares the metrics.
pub fn declare(description: Description) -> Description {
    description
        .metric(
            MetricType::Gauge,
            MAX_UNAVAILABLE,
            LABELS,
            "The number of pods that may be unavailable during a rolling update",
        )
        .metric(
            MetricType::Gauge,
            UNAVAILABLE,
            LABELS,
            "The number of unavailable pods",
        )
}

pub fn set_max_unavailable(host: &Host, set: &StatefulSet, pods: usize) {
    host.metrics()
        .set(MAX_UNAVAILABLE, &labels(set), pods as f64);
}

pub fn set_unavailable(host: &Host, set: &StatefulSet, pods: usize) {
    host.metrics().set(UNAVAILABLE, &labels(set), pods as f64);
}

fn labels(set: &StatefulSet) -> [&str; 3] {
    [
        &set.meta.namespace,
        &set.meta.name,
        &set.pod_management_policy,
    ]
}
