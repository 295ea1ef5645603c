//! The requests and limits of a pod, over all of its containers (KEP-753 for sidecars,
//! KEP-1287 for resizes, KEP-2837 for resources of the whole pod).
//!
//! Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go: PodRequests, PodLimits,
//! AggregateContainerRequests, AggregateContainerLimits, determineEffectiveRequests, determineEffectiveLimits,
//! IsSupportedPodLevelResource, IsPodLevelRequestsSet, IsPodLevelLimitsSet.

use crate::amounts::{ResourceList, add, raise};
use crate::views::{Container, Pod, Resources};

/// The figures of a pod's resources that are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Requests,
    Limits,
}

impl Figure {
    fn of(self, resources: &Resources) -> &ResourceList {
        match self {
            Self::Requests => &resources.requests,
            Self::Limits => &resources.limits,
        }
    }
}

/// Returns the requests of a pod, with its overhead. `pod_level` says whether the requests of the pod as a whole take
/// precedence over its containers' requests.
pub fn requests(pod: &Pod, pod_level: bool) -> ResourceList {
    let mut total = of_containers(pod, Figure::Requests);
    if pod_level {
        total.extend(supported(&pod.resources.requests));
    }
    add(&mut total, &pod.overhead);
    total
}

/// Returns the limits of a pod. The overhead is added to limits that exist.
pub fn limits(pod: &Pod, pod_level: bool) -> ResourceList {
    let mut total = of_containers(pod, Figure::Limits);
    if pod_level {
        total.extend(supported(&pod.resources.limits));
    }
    for (name, limit) in &mut total {
        if let Some(overhead) = pod.overhead.get(name)
            && !limit.is_zero()
        {
            *limit = *limit + *overhead;
        }
    }
    total
}

/// Returns the quantities that may be set for a pod as a whole.
fn supported(list: &ResourceList) -> ResourceList {
    let is_supported =
        |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    list.iter()
        .filter(|(name, _)| is_supported(name))
        .map(|(name, quantity)| (name.clone(), *quantity))
        .collect()
}

/// Returns the greatest sum at any time: either of the containers and sidecars together, or of an init container and
/// the sidecars that start before it.
fn of_containers(pod: &Pod, figure: Figure) -> ResourceList {
    let mut total = ResourceList::new();
    for container in &pod.containers {
        add(&mut total, &effective(pod, container, figure));
    }
    let (mut sidecars, mut starting) = (ResourceList::new(), ResourceList::new());
    for container in &pod.init_containers {
        if container.is_sidecar() {
            let own = effective(pod, container, figure);
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            let mut own = figure.of(&container.resources).clone();
            add(&mut own, &sidecars);
            raise(&mut starting, &own);
        }
    }
    raise(&mut total, &starting);
    total
}

/// Returns the figure of a container. During a resize, it is the greatest of the desired figure, the figure that the
/// container runs with and, for requests, the reserved one. A desired figure that can't be granted (`Infeasible`)
/// doesn't count.
fn effective(pod: &Pod, container: &Container, figure: Figure) -> ResourceList {
    let wanted = figure.of(&container.resources);
    let mut statuses = pod
        .init_container_statuses
        .iter()
        .chain(&pod.container_statuses);
    let status = statuses.find(|status| status.name == container.name);
    let Some((status, running)) = status.and_then(|own| Some((own, own.resources.as_ref()?)))
    else {
        return wanted.clone();
    };
    let mut greatest = if pod.resize_pending.as_deref() == Some("Infeasible") {
        ResourceList::new()
    } else {
        wanted.clone()
    };
    raise(&mut greatest, figure.of(running));
    if figure == Figure::Requests {
        raise(&mut greatest, &status.allocated_resources);
    }
    greatest
}

impl Container {
    fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}
