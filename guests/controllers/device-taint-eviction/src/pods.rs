//! The claims that a pod uses, and the time of its eviction.
//!
//! Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go: usesDevice, handlePods, podEvictionTime.
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go: IsReservedForPod.
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/pod.go: PodClaims.

use flyball_device_claims::{Name, PodConsumer, name};
use flyball_sdk::prelude::*;

use crate::GROUPS;
use crate::taints::{Devices, Eviction};
use crate::views::{BY_CLAIM, BY_CREATED_CLAIM, BY_EXTENDED_CLAIM, Claim, Pod};

/// Which claims count as used by a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Whether a PodGroup can hold a claim for its pods.
    pub groups: bool,
    /// Whether the claim of a pod's extended resources counts. Before Kubernetes 1.37, it did not.
    pub extended: bool,
}

impl Scope {
    pub fn read(host: &Host) -> Self {
        Self {
            groups: host.feature_enabled(GROUPS),
            extended: host.release_at_least(37),
        }
    }
}

/// The name of a claim in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    pub name: &'a str,
    /// Whether the claim was created for the pod, so that it must be the pod's.
    pub is_own: bool,
}

/// The claims that a pod references and that exist or existed.
pub fn references(pod: &Pod, scope: Scope) -> impl Iterator<Item = Reference<'_>> {
    let named = pod.claims.iter().map(|entry| name(entry, &pod.created));
    let named = named.filter_map(|name| match name {
        Name::Given(name) => Some(Reference {
            name,
            is_own: false,
        }),
        Name::Generated(name) => Some(Reference { name, is_own: true }),
        Name::Unneeded | Name::NotYet | Name::Unsupported => None,
    });
    let has_extended = scope.extended && !pod.extended.is_empty();
    let extended = has_extended.then_some(Reference {
        name: &pod.extended,
        is_own: true,
    });
    named.chain(extended)
}

/// Whether a pod uses a claim that it references by this name.
pub fn uses(pod: &Pod, reference: Reference<'_>, claim: &Claim, scope: Scope) -> bool {
    let consumer = PodConsumer {
        uid: &pod.meta.uid,
        group: Some(pod.group.as_str()).filter(|group| scope.groups && !group.is_empty()),
    };
    reference.name == claim.meta.name
        && (!reference.is_own || consumer.owns(&claim.meta))
        && consumer.has_reserved(&claim.reserved_for)
}

/// Whether a pod that is on a node uses a claim.
pub fn is_consumer(pod: &Pod, claim: &Claim, scope: Scope) -> bool {
    !pod.node.is_empty()
        && pod.meta.namespace == claim.meta.namespace
        && references(pod, scope).any(|reference| uses(pod, reference, claim, scope))
}

/// When a pod is evicted: with the first of its claims, for the causes of all. A pod is never evicted before it is on a
/// node.
pub fn eviction(pod: &Pod, claims: &[Claim], devices: &Devices, scope: Scope) -> Option<Eviction> {
    let used = claims.iter().filter(|claim| is_consumer(pod, claim, scope));
    used.filter_map(|claim| devices.eviction(claim))
        .reduce(Eviction::join)
}

/// Lists the pods that reference a claim. A pod may be in the list twice.
///
/// # Errors
/// A list failed.
pub fn referencing(host: &Host, claim: &Key) -> Result<Vec<Pod>, Error> {
    let mut pods = Vec::new();
    for index in [BY_CLAIM, BY_CREATED_CLAIM, BY_EXTENDED_CLAIM] {
        let list = host.list::<Pod>().namespace(&claim.namespace);
        pods.extend(list.index(index, &claim.name).all()?);
    }
    Ok(pods)
}
