//! Computes a number of replicas from the values of a metric and its target. Values are in thousandths.
//!
//! A metric of each pod is averaged. Pods without a value, and unready ones, are assumed to have a value that makes the
//! change smaller; they never turn its direction.
//!
//! For example, the target is 100m, two of three pods use 200m, and the third one has no value. The ratio of 2 asks for
//! more replicas, so the third pod is assumed to use nothing: 400m / 3 / 100m ≈ 1.33, and 1.33 · 3 = 4 replicas are
//! wanted. If the two pods use 50m, fewer replicas are wanted, and the third pod is assumed to use 100m, its target:
//! 200m / 3 / 100m ≈ 0.67 asks for 2.
//!
//! Upstream: pkg/controller/podautoscaler/replica_calculator.go: isWithin, GetResourceReplicas, GetRawResourceReplicas,
//! calcPlainMetricReplicas, getUsageRatioReplicaCount, removeMetricsForPods.
//! Upstream: pkg/controller/podautoscaler/metrics/utilization.go: GetResourceUtilizationRatio, GetMetricUsageRatio.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::Time;

/// How far a metric may be from its target without an effect, relative to the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    fn contain(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// The value of a metric of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodMetric {
    /// The end of the window.
    pub timestamp: Time,
    /// The time that the value is an average of.
    pub window: Duration,
    pub value: i64,
}

/// The values of a metric by the names of pods.
pub type PodMetrics = BTreeMap<String, PodMetric>;

/// The names of pods by how their values count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grouped {
    /// Number of pods whose values count.
    pub ready: usize,
    pub unready: BTreeSet<String>,
    /// Pods without a value.
    pub missing: BTreeSet<String>,
    /// Pods that don't count at all.
    pub ignored: BTreeSet<String>,
}

/// A result for a resource in percent of the pods' requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utilization {
    pub replicas: i32,
    pub percent: i32,
    /// The average usage of the counted pods.
    pub average: i64,
}

/// Computes the replicas for a target in percent of each pod's request.
///
/// # Errors
/// No pod with a value requests anything.
pub fn by_utilization(
    current: i32,
    target: i32,
    metrics: PodMetrics,
    requests: &BTreeMap<String, i64>,
    pods: &Grouped,
    tolerances: Tolerances,
) -> Result<Utilization, String> {
    let metrics = counted(metrics, pods)?;
    let (ratio, percent, average) = utilization(&metrics, requests, target)?;
    let fallback = i64::from(target.max(100));
    let requested = |pod: &str| requests.get(pod).copied().unwrap_or_default();
    let replicas = dampened(
        current,
        ratio,
        metrics,
        pods,
        tolerances,
        |pod| requested(pod).wrapping_mul(fallback) / 100,
        |metrics| utilization(metrics, requests, target).map(|(ratio, ..)| ratio),
    )?;
    Ok(Utilization {
        replicas,
        percent,
        average,
    })
}

/// Computes the replicas for a target value of each pod. Returns them with the average value.
///
/// # Errors
/// No pod that counts has a value.
pub fn by_value(
    current: i32,
    target: i64,
    metrics: PodMetrics,
    pods: &Grouped,
    tolerances: Tolerances,
) -> Result<(i32, i64), String> {
    let metrics = counted(metrics, pods)?;
    let (ratio, average) = usage(&metrics, target);
    let again = |metrics: &PodMetrics| Ok(usage(metrics, target).0);
    let replicas = dampened(current, ratio, metrics, pods, tolerances, |_| target, again)?;
    Ok((replicas, average))
}

/// Returns the metrics of the pods that count.
///
/// # Errors
/// No metric is left.
pub fn counted(mut metrics: PodMetrics, pods: &Grouped) -> Result<PodMetrics, String> {
    metrics.retain(|pod, _| !pods.ignored.contains(pod) && !pods.unready.contains(pod));
    if metrics.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    Ok(metrics)
}

/// Computes the replicas from the ratio of the usage to its target. `full` is the value of a pod that is assumed to use
/// all that it may, and `again` computes the ratio with the assumed values.
fn dampened(
    current: i32,
    ratio: f64,
    mut metrics: PodMetrics,
    pods: &Grouped,
    tolerances: Tolerances,
    full: impl Fn(&str) -> i64,
    again: impl Fn(&PodMetrics) -> Result<f64, String>,
) -> Result<i32, String> {
    let up_with_unready = !pods.unready.is_empty() && ratio > 1.0;
    if !up_with_unready && pods.missing.is_empty() {
        if tolerances.contain(ratio) {
            return Ok(current);
        }
        return Ok(ceil(ratio * pods.ready as f64));
    }
    let mut assume = |pods: &BTreeSet<String>, value: &dyn Fn(&str) -> i64| {
        for pod in pods {
            let value = value(pod);
            let assumed = PodMetric {
                value,
                ..PodMetric::default()
            };
            metrics.insert(pod.clone(), assumed);
        }
    };
    if ratio < 1.0 {
        assume(&pods.missing, &full);
    } else if ratio > 1.0 {
        assume(&pods.missing, &|_| 0);
    }
    if up_with_unready {
        assume(&pods.unready, &|_| 0);
    }
    let new_ratio = again(&metrics)?;
    let turns = (ratio < 1.0 && new_ratio > 1.0) || (ratio > 1.0 && new_ratio < 1.0);
    if tolerances.contain(new_ratio) || turns {
        return Ok(current);
    }
    let replicas = ceil(new_ratio * metrics.len() as f64);
    let turns = (new_ratio < 1.0 && replicas > current) || (new_ratio > 1.0 && replicas < current);
    Ok(if turns { current } else { replicas })
}

/// Returns the ratio of the utilization to its target, the utilization in percent, and the average usage.
fn utilization(
    metrics: &PodMetrics,
    requests: &BTreeMap<String, i64>,
    target: i32,
) -> Result<(f64, i32, i64), String> {
    let (mut used, mut requested, mut count) = (0i64, 0i64, 0i64);
    for (pod, metric) in metrics {
        // Other values belong to no known pod.
        if let Some(request) = requests.get(pod) {
            used = used.wrapping_add(metric.value);
            requested = requested.wrapping_add(*request);
            count += 1;
        }
    }
    if requested == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = (used.wrapping_mul(100) / requested) as i32;
    Ok((
        f64::from(percent) / f64::from(target),
        percent,
        used / count,
    ))
}

/// Returns the ratio of the average value to its target, and the average value.
fn usage(metrics: &PodMetrics, target: i64) -> (f64, i64) {
    let total = metrics
        .values()
        .fold(0i64, |sum, metric| sum.wrapping_add(metric.value));
    let average = total / metrics.len().max(1) as i64;
    (average as f64 / target as f64, average)
}

/// Computes the replicas for a metric of all pods together. `ready` counts the ready pods; it is called only if their
/// number matters. Without replicas, neither pods nor tolerances matter.
///
/// # Errors
/// The errors of `ready`.
pub fn by_ratio(
    current: i32,
    ratio: f64,
    tolerances: Tolerances,
    ready: impl FnOnce() -> Result<usize, String>,
) -> Result<i32, String> {
    if current == 0 {
        return Ok(ceil(ratio));
    }
    if tolerances.contain(ratio) {
        return Ok(current);
    }
    let ready = ready().map_err(|error| format!("unable to calculate ready pods: {error}"))?;
    Ok(ceil(ratio * ready as f64))
}

/// Computes the replicas for a metric of all pods together whose target is for each pod. Returns them with the value
/// for each pod.
pub fn by_share(replicas: i32, target: i64, usage: i64, tolerances: Tolerances) -> (i32, i64) {
    let (used, each) = (usage as f64, target as f64);
    let ratio = used / (each * f64::from(replicas));
    let new = if tolerances.contain(ratio) {
        replicas
    } else {
        ceil(used / each)
    };
    let share = if used >= i64::MAX as f64 {
        i64::MAX
    } else {
        (used / f64::from(replicas)).ceil() as i64
    };
    (new, share)
}

/// Sums values; the greatest integer if there is more.
pub fn sum(values: impl IntoIterator<Item = i64>) -> i64 {
    values.into_iter().fold(0, i64::saturating_add)
}

/// Rounds up. A greater number than any number of replicas becomes the greatest one.
fn ceil(number: f64) -> i32 {
    number.ceil() as i32
}
