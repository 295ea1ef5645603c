//! Which pods use which claims, and when they are evicted.

use flyball_sdk::prelude::*;

use crate::taints::{Devices, Eviction};
use crate::views::{BY_CLAIM, BY_CREATED_CLAIM, Claim, Pod};

/// The API group of PodGroups.
const SCHEDULING: &str = "scheduling.k8s.io";

/// The name of a claim in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    pub name: &'a str,
    /// Whether the claim was created for the pod, so that it must be the pod's.
    pub is_own: bool,
}

/// The claims that a pod references and that exist or existed.
pub fn references(pod: &Pod) -> impl Iterator<Item = Reference<'_>> {
    pod.claims.iter().filter_map(|entry| {
        if let Some(name) = &entry.resource_claim_name {
            return Some(Reference {
                name,
                is_own: false,
            });
        }
        entry.resource_claim_template_name.as_ref()?;
        let created = pod.created.iter().find(|one| one.name == entry.name)?;
        let name = created.resource_claim_name.as_deref()?;
        Some(Reference { name, is_own: true })
    })
}

/// Whether a pod uses a claim that it references by this name. `groups` is whether a PodGroup can hold a claim for its pods.
pub fn uses(pod: &Pod, reference: Reference<'_>, claim: &Claim, groups: bool) -> bool {
    let is_of_group = || {
        groups
            && !pod.group.is_empty()
            && claim.meta.controller().is_some_and(|owner| {
                let group = owner.api_version.split_once('/').map(|(group, _)| group);
                owner.name == pod.group && owner.kind == "PodGroup" && group == Some(SCHEDULING)
            })
    };
    let is_allowed =
        !reference.is_own || claim.meta.is_controlled_by(&pod.meta.uid) || is_of_group();
    reference.name == claim.meta.name
        && is_allowed
        && claim.reserved_for.iter().any(|consumer| {
            consumer.uid == pod.meta.uid
                || groups
                    && !pod.group.is_empty()
                    && consumer.api_group == SCHEDULING
                    && consumer.resource == "podgroups"
                    && consumer.name == pod.group
        })
}

/// Whether a pod that is on a node uses a claim.
pub fn is_consumer(pod: &Pod, claim: &Claim, groups: bool) -> bool {
    !pod.node.is_empty()
        && pod.meta.namespace == claim.meta.namespace
        && references(pod).any(|reference| uses(pod, reference, claim, groups))
}

/// When a pod is evicted: with the first of its claims, for the causes of all. Never before it is on a node.
pub fn eviction(pod: &Pod, claims: &[Claim], devices: &Devices, groups: bool) -> Option<Eviction> {
    let used = claims
        .iter()
        .filter(|claim| is_consumer(pod, claim, groups));
    used.filter_map(|claim| devices.eviction(claim))
        .reduce(Eviction::join)
}

/// Lists the pods that reference a claim. A pod may be in the list twice.
///
/// # Errors
/// A list failed.
pub fn referencing(host: &Host, claim: &Key) -> Result<Vec<Pod>, Error> {
    let mut pods = Vec::new();
    for index in [BY_CLAIM, BY_CREATED_CLAIM] {
        let list = host.list::<Pod>().namespace(&claim.namespace);
        pods.extend(list.index(index, &claim.name).all()?);
    }
    Ok(pods)
}
