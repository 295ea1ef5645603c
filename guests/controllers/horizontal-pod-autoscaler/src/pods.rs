//! Selects the pods that count for a metric, and sums their requests.
//!
//! Upstream: pkg/controller/podautoscaler/replica_calculator.go: groupPods, getReadyPodsCount, calculateRequests,
//! calculatePodLevelRequests, calculatePodRequestsFromContainers.
//! Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go: PodRequests, AggregateContainerRequests,
//! IsPodLevelRequestsSet, IsSupportedPodLevelResource.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

use crate::calculator::{Grouped, PodMetric, PodMetrics};
use crate::settings::Readiness;
use crate::views::{Container, Pod, Resources};

/// Groups pods by how their values count. `resource` is empty for metrics other than resources.
pub fn group(
    pods: &[Pod],
    metrics: &PodMetrics,
    resource: &str,
    readiness: Readiness,
    now: Time,
) -> Grouped {
    let mut grouped = Grouped::default();
    for pod in pods {
        let name = pod.name.clone();
        if pod.deleted.is_some() || pod.phase == "Failed" {
            grouped.ignored.insert(name);
        } else if pod.phase == "Pending" {
            grouped.unready.insert(name);
        } else if let Some(metric) = metrics.get(&name) {
            if resource == "cpu" && is_starting(pod, metric, readiness, now) {
                grouped.unready.insert(name);
            } else {
                grouped.ready += 1;
            }
        } else {
            grouped.missing.insert(name);
        }
    }
    grouped
}

/// Whether the CPU usage of a pod may still be caused by its start.
fn is_starting(pod: &Pod, metric: &PodMetric, readiness: Readiness, now: Time) -> bool {
    let (Some(ready), Some(started)) = (&pod.ready, pod.started) else {
        return true;
    };
    let is_unready = ready.status == "False";
    let changed = ready.last_transition_time.unwrap_or_default();
    if started + readiness.cpu_initialization > now {
        // A whole window must have passed since the pod became ready.
        is_unready || metric.timestamp < changed + metric.window
    } else {
        is_unready && started + readiness.initial_delay > changed
    }
}

/// Counts the running pods that are ready.
///
/// # Errors
/// There are no pods.
pub fn ready(pods: &[Pod]) -> Result<usize, String> {
    require(pods)?;
    let is_ready = |pod: &&Pod| pod.phase == "Running" && pod.is_ready();
    Ok(pods.iter().filter(is_ready).count())
}

/// Fails if there are no pods.
///
/// # Errors
/// There are no pods.
pub fn require(pods: &[Pod]) -> Result<(), String> {
    if pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    Ok(())
}

/// Returns each pod's request of a resource, in thousandths: the request of one of its containers, or of all. If
/// `pod_level` is set, the request of the pod as a whole takes precedence over its containers.
///
/// # Errors
/// A container has no request, or does not exist.
pub fn requests(
    pods: &[Pod],
    container: &str,
    resource: &str,
    pod_level: bool,
) -> Result<BTreeMap<String, i64>, String> {
    let of_pod = |pod: &Pod| {
        let request = if pod_level && container.is_empty() && is_whole(&pod.requests) {
            of_whole(pod, resource)
        } else {
            of_containers(pod, container, resource)
        };
        Ok((pod.name.clone(), request?))
    };
    pods.iter().map(of_pod).collect()
}

/// Whether these requests of a pod as a whole (KEP-2837) name a resource that may be requested so.
fn is_whole(requests: &Resources) -> bool {
    requests.keys().any(|name| is_supported(name))
}

fn is_supported(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Returns the request of a pod as a whole, or else of its containers together, with its overhead.
fn of_whole(pod: &Pod, resource: &str) -> Result<i64, String> {
    let own = pod
        .requests
        .get(resource)
        .filter(|_| is_supported(resource));
    let requested = own.copied().or_else(|| greatest(pod, resource));
    let overhead = pod.overhead.get(resource).copied();
    match (requested, overhead) {
        (None, None) => Err(format!(
            "missing pod-level request for {resource} in Pod {}",
            pod.name
        )),
        (requested, overhead) => {
            Ok((requested.unwrap_or_default() + overhead.unwrap_or_default()).millis())
        }
    }
}

/// The greatest sum of the containers' requests at any time; none if no container has a request.
fn greatest(pod: &Pod, resource: &str) -> Option<Quantity> {
    let of = |container: &Container| container.resources.requests.get(resource).copied();
    let mut all = pod.containers.iter().chain(&pod.init_containers);
    all.find_map(of)?;
    let sum = |containers: &mut dyn Iterator<Item = &Container>| containers.filter_map(of).sum();
    let mut sidecars = Quantity::default();
    let mut starting = Quantity::default();
    for container in &pod.init_containers {
        let own = of(container).unwrap_or_default() + sidecars;
        starting = starting.max(own);
        if is_sidecar(container) {
            sidecars = own;
        }
    }
    let running: Quantity = sum(&mut pod.containers.iter());
    Some((running + sidecars).max(starting))
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The sum of the requests of the containers and sidecars, or the request of the named one.
fn of_containers(pod: &Pod, container: &str, resource: &str) -> Result<i64, String> {
    let sidecars = pod.init_containers.iter().filter(|own| is_sidecar(own));
    let mut all = pod.containers.iter().chain(sidecars);
    let request = |own: &Container| {
        let found = own.resources.requests.get(resource);
        found.map(|request| request.millis()).ok_or_else(|| {
            format!(
                "missing request for {resource} in container {} of Pod {}",
                own.name, pod.name
            )
        })
    };
    if container.is_empty() {
        return all.try_fold(0i64, |sum, own| Ok(sum.wrapping_add(request(own)?)));
    }
    let named = all.find(|own| own.name == container);
    request(named.ok_or_else(|| format!("container {container} not found in Pod {}", pod.name))?)
}
