//! The requests and limits of a pod, over all of its containers (KEP-753 for sidecars,
//! KEP-1287 for resizes, KEP-2837 for resources of the whole pod).
//!
//! Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go: PodRequests, PodLimits,
//! AggregateContainerRequests, AggregateContainerLimits, aggregateContainerResourcesByFn, containerSpecRequests,
//! containerAllocatedRequests, containerActuatedRequests, containerSpecLimits, containerActuatedLimits,
//! findContainerStatus, isRestartableInitContainer, IsPodResizeInfeasible, applyPodLevelResources,
//! IsSupportedPodLevelResource, IsPodLevelRequestsSet, IsPodLevelLimitsSet.

use crate::amounts::{ResourceList, add, raise};
use crate::views::{Container, ContainerStatus, Pod, Resources};

/// How the resources of a pod count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// Whether the resources of the pod as a whole take precedence over those of its containers.
    pub pod_level: bool,
    /// Whether the greatest figure of each container counts during a resize, as before Kubernetes 1.37. Otherwise, the
    /// greatest sum counts.
    pub by_container: bool,
}

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

/// Returns the requests of a pod, with its overhead.
pub fn requests(pod: &Pod, counting: Counting) -> ResourceList {
    let mut total = of_containers(pod, Figure::Requests, counting);
    if counting.pod_level {
        total.extend(supported(&pod.resources.requests));
    }
    add(&mut total, &pod.overhead);
    total
}

/// Returns the limits of a pod. The overhead is added to limits that exist.
pub fn limits(pod: &Pod, counting: Counting) -> ResourceList {
    let mut total = of_containers(pod, Figure::Limits, counting);
    if counting.pod_level {
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

/// Returns the figure of all containers.
///
/// During a resize, the greatest sum counts: of the desired figures, of those that the containers run with and, for
/// requests, of the reserved ones. Desired figures that can't be granted (`Infeasible`) don't count.
fn of_containers(pod: &Pod, figure: Figure, counting: Counting) -> ResourceList {
    if counting.by_container {
        return sum(pod, |container| greatest(pod, container, figure));
    }
    let mut total = if is_infeasible(pod) {
        ResourceList::new()
    } else {
        sum(pod, |container| figure.of(&container.resources).clone())
    };
    raise(&mut total, &sum(pod, |own| running(pod, own, figure)));
    if figure == Figure::Requests {
        raise(&mut total, &sum(pod, |own| reserved(pod, own)));
    }
    total
}

/// Returns the greatest sum at any time: either of the containers and sidecars together, or of an init container and
/// the sidecars that start before it.
fn sum(pod: &Pod, of: impl Fn(&Container) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::new();
    for container in &pod.containers {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut starting) = (ResourceList::new(), ResourceList::new());
    for container in &pod.init_containers {
        let mut own = of(container);
        if container.is_sidecar() {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            add(&mut own, &sidecars);
            raise(&mut starting, &own);
        }
    }
    raise(&mut total, &starting);
    total
}

/// Returns the figure that a container runs with. Without one, a request is the reserved one.
fn running(pod: &Pod, container: &Container, figure: Figure) -> ResourceList {
    let status = status(pod, container).and_then(|own| own.resources.as_ref());
    match status.map(|resources| figure.of(resources)) {
        Some(own) if !own.is_empty() => own.clone(),
        _ if figure == Figure::Requests => reserved(pod, container),
        _ => wanted(pod, container, figure),
    }
}

/// Returns the requests that the node has reserved for a container.
fn reserved(pod: &Pod, container: &Container) -> ResourceList {
    match status(pod, container).map(|own| &own.allocated_resources) {
        Some(own) if !own.is_empty() => own.clone(),
        _ => wanted(pod, container, Figure::Requests),
    }
}

/// Returns the desired figure of a container, unless it can't be granted.
fn wanted(pod: &Pod, container: &Container, figure: Figure) -> ResourceList {
    if is_infeasible(pod) {
        return ResourceList::new();
    }
    figure.of(&container.resources).clone()
}

/// Returns the greatest of the desired figure of a container, the figure that it runs with and, for requests, the
/// reserved one. Only sidecars among the init containers are resized.
fn greatest(pod: &Pod, container: &Container, figure: Figure) -> ResourceList {
    let mut ordinary = pod.init_containers.iter().filter(|own| !own.is_sidecar());
    let is_resized = !ordinary.any(|own| own.name == container.name);
    let status = status(pod, container).filter(|_| is_resized);
    let Some((status, running)) = status.and_then(|own| Some((own, own.resources.as_ref()?)))
    else {
        return figure.of(&container.resources).clone();
    };
    let mut greatest = wanted(pod, container, figure);
    raise(&mut greatest, figure.of(running));
    if figure == Figure::Requests {
        raise(&mut greatest, &status.allocated_resources);
    }
    greatest
}

fn status<'a>(pod: &'a Pod, container: &Container) -> Option<&'a ContainerStatus> {
    let statuses = pod.container_statuses.iter();
    let mut statuses = statuses.chain(&pod.init_container_statuses);
    statuses.find(|status| status.name == container.name)
}

fn is_infeasible(pod: &Pod) -> bool {
    pod.resize_pending.as_deref() == Some("Infeasible")
}

impl Container {
    fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}
