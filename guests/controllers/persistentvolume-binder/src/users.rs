//! The pods that use a claim.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: findPodsByPVCKey, isVolumeUsed,
//! findNonScheduledPodsByPVC.
//! Upstream: pkg/controller/volume/common/common.go: PodPVCIndexFunc.
//! Upstream: pkg/volume/util/util.go: IsPodTerminated, notRunning.

use std::collections::BTreeMap;

use flyball_pods::has_ended;
use flyball_sdk::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::describe::BY_NAMED_CLAIM;
use crate::views::Pod;

/// The containers of a pod. They matter only if the pod is being deleted, so that they are read live and not cached.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
struct Containers {
    #[view(path = "metadata", fields())]
    meta: Meta,
    #[view(path = "status.initContainerStatuses", fields("[*].state"))]
    init: Vec<Container>,
    #[view(path = "status.containerStatuses", fields("[*].state"))]
    usual: Vec<Container>,
    #[view(path = "status.ephemeralContainerStatuses", fields("[*].state"))]
    ephemeral: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<IgnoredAny>,
    terminated: Option<IgnoredAny>,
}

/// Returns the names of the pods that use a claim and wait to be scheduled.
///
/// # Errors
/// A read failed.
pub(crate) fn unscheduled(host: &Host, claim: &Meta) -> Result<Vec<String>, Error> {
    let pods = active(host, &claim.namespace, &claim.name)?;
    let waiting = pods.into_iter().filter(|pod| pod.node.is_empty());
    Ok(waiting.map(|pod| pod.meta.name).collect())
}

/// Returns the keys of the pods that use a claim.
///
/// # Errors
/// A read failed.
pub(crate) fn using(host: &Host, namespace: &str, claim: &str) -> Result<Vec<String>, Error> {
    let pods = active(host, namespace, claim)?;
    Ok(pods.iter().map(|pod| pod.meta.key().to_string()).collect())
}

/// Returns the pods that use a claim, and that have not ended, in the order of their names.
fn active(host: &Host, namespace: &str, claim: &str) -> Result<Vec<Pod>, Error> {
    let mut pods = BTreeMap::new();
    let naming = host.list::<Pod>().namespace(namespace);
    for pod in naming.index(BY_NAMED_CLAIM, claim).all()? {
        pods.insert(pod.meta.name.clone(), pod);
    }
    for (name, volume) in ephemeral(claim) {
        if let Some(pod) = host.get::<Pod>(namespace, name)?
            && has_ephemeral(&pod, volume)
        {
            pods.insert(pod.meta.name.clone(), pod);
        }
    }
    let mut active = Vec::new();
    for pod in pods.into_values() {
        if !is_terminated(host, &pod)? {
            active.push(pod);
        }
    }
    Ok(active)
}

/// The pods and their volumes that may have a claim of this name: the claim of an ephemeral volume is called POD-VOLUME.
fn ephemeral(claim: &str) -> impl Iterator<Item = (&str, &str)> {
    { claim.match_indices('-') }.map(|(dash, _)| (&claim[..dash], &claim[dash + 1..]))
}

fn has_ephemeral(pod: &Pod, volume: &str) -> bool {
    { pod.volumes.iter() }.any(|own| own.name == volume && own.ephemeral.is_some())
}

/// Whether a pod has ended, or is being deleted and no container runs.
fn is_terminated(host: &Host, pod: &Pod) -> Result<bool, Error> {
    if has_ended(&pod.phase) {
        return Ok(true);
    }
    if !pod.meta.is_deleting() {
        return Ok(false);
    }
    let newest: Option<Containers> = host.live().get(&pod.meta.namespace, &pod.meta.name)?;
    let Some(newest) = newest.filter(|newest| newest.meta.uid == pod.meta.uid) else {
        return Ok(true);
    };
    let runs = |one: &Container| one.state.terminated.is_none() && one.state.waiting.is_none();
    let mut containers = { newest.init.iter() }
        .chain(&newest.usual)
        .chain(&newest.ephemeral);
    Ok(!containers.any(runs))
}
