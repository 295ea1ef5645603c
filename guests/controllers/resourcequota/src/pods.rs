//! The usage of a quota by a pod, and the scopes that the pod is in.
//!
//! Upstream: pkg/quota/v1/evaluator/core/pods.go: MatchingResources, podComputeUsageHelper, podMatchesScopeFunc,
//! PodUsageFunc, isBestEffort, IsTerminating, usesCrossNamespacePodAffinity, QuotaV1Pod,
//! isExtendedResourceNameForQuota.

use std::time::Duration;

use flyball_pods::has_ended;
use flyball_sdk::prelude::*;

use crate::amounts::{ResourceList, add_one, one};
use crate::pod_resources::{Counting, limits, requests};
use crate::views::{AffinityTerm, Pod, PodAffinity, Requirement, Resources};

/// The scope of pods with a priority class.
pub const PRIORITY_CLASS: &str = "PriorityClass";
/// The prefix of a limit on requests.
const REQUESTS: &str = "requests.";
/// The prefix of a limit on limits.
const LIMITS: &str = "limits.";
/// The prefix of extended resources that stand for a DeviceClass.
pub const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// The limits on pods with fixed names.
const NAMES: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// The resources whose requests and limits are counted.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// The greatest length of the domain in a qualified name.
const MAX_DOMAIN: usize = 253;

/// Whether a limit of this name counts something of pods.
pub fn tracks(name: &str) -> bool {
    let plain = name.strip_prefix(REQUESTS);
    NAMES.contains(&name)
        || plain.unwrap_or(name).starts_with("hugepages-")
        || plain.is_some_and(|plain| !is_native(name) || plain.starts_with(DEVICE_CLASS))
}

/// Whether Kubernetes itself defines the resource.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource in the requests of a container is an extended one.
fn is_extended(name: &str) -> bool {
    let domain = name.split('/').next().unwrap_or_default();
    let is_extended = !is_native(name)
        && !name.starts_with(REQUESTS)
        && REQUESTS.len() + domain.len() <= MAX_DOMAIN;
    is_extended || name.starts_with(DEVICE_CLASS)
}

/// Returns the usage by a pod. `count/pods` counts pods that have ended, too.
pub fn usage(pod: &Pod, now: Time, counting: Counting) -> ResourceList {
    let mut used = ResourceList::from([("count/pods".into(), one())]);
    if !is_charged(pod, now) {
        return used;
    }
    used.insert("pods".into(), one());
    for (name, request) in requests(pod, counting) {
        let is_compute = COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-");
        if is_compute || is_extended(&name) {
            add_one(&mut used, &format!("{REQUESTS}{name}"), request);
        }
        if is_compute {
            add_one(&mut used, &name, request);
        }
    }
    for (name, limit) in limits(pod, counting) {
        if COMPUTE.contains(&name.as_str()) {
            add_one(&mut used, &format!("{LIMITS}{name}"), limit);
        }
    }
    used
}

/// Whether a pod's resources are counted. They aren't counted after the pod has ended, nor if its deletion takes longer
/// than its grace period, for example because its node is lost.
pub fn is_charged(pod: &Pod, now: Time) -> bool {
    let overdue = |(deleted, grace): (Time, i64)| {
        now > deleted + Duration::from_secs(u64::try_from(grace).unwrap_or_default())
    };
    let deletion = pod
        .meta
        .deletion_timestamp
        .zip(pod.meta.deletion_grace_period_seconds);
    !has_ended(&pod.phase) && !deletion.is_some_and(overdue)
}

/// Whether a pod is meant to end by itself.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.active_deadline_seconds
        .is_some_and(|seconds| seconds >= 0)
}

/// Whether a pod is in a scope. A scope of other kinds has no pods.
pub fn is_in(pod: &Pod, scope: &Requirement) -> bool {
    match scope.scope_name.as_str() {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        PRIORITY_CLASS => {
            let class = Some(pod.priority_class.as_str()).filter(|class| !class.is_empty());
            scope.selects(class.as_slice())
        }
        "CrossNamespacePodAffinity" => {
            [&pod.affinity.pod_affinity, &pod.affinity.pod_anti_affinity]
                .into_iter()
                .any(reaches_other_namespaces)
        }
        _ => false,
    }
}

fn reaches_other_namespaces(affinity: &PodAffinity) -> bool {
    let preferred = affinity
        .preferred
        .iter()
        .map(|term| &term.pod_affinity_term);
    let is_named =
        |term: &AffinityTerm| !term.namespaces.is_empty() || term.namespace_selector.is_some();
    affinity.required.iter().chain(preferred).any(is_named)
}

/// Whether neither the pod nor a container requests or limits CPU or memory. The API server stores
/// the answer. Resources of the pod as a whole take precedence.
fn is_best_effort(pod: &Pod) -> bool {
    if !pod.qos_class.is_empty() {
        return pod.qos_class == "BestEffort";
    }
    let asks = |resources: &Resources| {
        let mut figures = resources.requests.iter().chain(&resources.limits);
        figures.any(|(name, quantity)| {
            matches!(name.as_str(), "cpu" | "memory") && quantity.nanos() > 0
        })
    };
    if pod.resources != Resources::default() {
        return !asks(&pod.resources);
    }
    let mut containers = pod.containers.iter().chain(&pod.init_containers);
    !containers.any(|container| asks(&container.resources))
}
