//! Decides whether a claim of a pod belongs to the pod or to its PodGroup.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: getPodGroup, handleClaim.
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go: IsForPod, IsForPodGroup.

use flyball_device_claims::{ClaimRef, PodConsumer};
use flyball_sdk::prelude::*;

use crate::gates::{Gates, WORKLOADS};
use crate::views::{Claim, Pod, PodGroup, User};

/// Returns the PodGroup of a pod; `None` if it has none. Before Kubernetes 1.37, it had none either if PodGroups had no
/// claims.
///
/// # Errors
/// The PodGroup does not exist, or there are no PodGroups, for which no retry helps.
pub(crate) fn group_of(host: &Host, gates: Gates, pod: &Pod) -> Result<Option<PodGroup>, Error> {
    let is_ignored = !gates.since_1_37 && !gates.pod_groups;
    let Some(name) = pod.group.as_deref().filter(|_| !is_ignored) else {
        return Ok(None);
    };
    if !gates.reads_groups() {
        let pod = pod.meta.key();
        return Err(Error::terminal(format!(
            "get PodGroup for Pod {pod}: Pod is a member of PodGroup {name} but {WORKLOADS} feature is disabled"
        )));
    }
    let found: Option<PodGroup> = host.get(&pod.meta.namespace, name)?;
    let missing = || {
        let pod = pod.meta.key();
        Error::failed(format!(
            "get PodGroup for Pod {pod}: podgroup.scheduling.k8s.io {name:?} not found"
        ))
    };
    found.map(Some).ok_or_else(missing)
}

/// Returns the user of a pod's claim: the PodGroup if its spec has the same reference, else the pod.
pub(crate) fn user<'a>(pod: &'a Pod, group: Option<&'a PodGroup>, claim: &ClaimRef) -> User<'a> {
    match group.filter(|group| group.claims.contains(claim)) {
        Some(group) => group.user(),
        None => pod.user(),
    }
}

/// A pod as the consumer of claims.
fn consumer(gates: Gates, pod: &Pod) -> PodConsumer<'_> {
    PodConsumer {
        uid: &pod.meta.uid,
        group: pod.group.as_deref().filter(|_| gates.pod_groups),
    }
}

/// Whether a generated claim was created for a pod or for its PodGroup.
///
/// # Errors
/// The claim was created for another object. The error is a text for people.
pub(crate) fn check_owner(gates: Gates, pod: &Pod, claim: &Claim) -> Result<(), String> {
    let consumer = consumer(gates, pod);
    if consumer.owns(&claim.meta) {
        return Ok(());
    }
    let not_owner = match consumer.group {
        Some(group) => format!("neither Pod nor PodGroup {group} is the owner"),
        None => "Pod is not owner".into(),
    };
    let (claim, pod) = (claim.meta.key(), pod.meta.key());
    Err(format!(
        "ResourceClaim {claim} was not created for Pod {pod} ({not_owner})"
    ))
}

/// Whether a claim is reserved for a pod or for its PodGroup.
pub(crate) fn is_reserved(gates: Gates, pod: &Pod, claim: &Claim) -> bool {
    consumer(gates, pod).has_reserved(&claim.status.reserved_for)
}
