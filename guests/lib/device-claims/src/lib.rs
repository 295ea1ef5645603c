//! Shared by the controllers of ResourceClaims: the claims that a pod or a PodGroup refers to, and the consumers of a
//! claim.
//!
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go: Name, NameFromPodGroup,
//! IsForPod, IsForPodGroup, IsReservedForPod.

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The feature gate of claims that PodGroups hold for their pods.
pub const POD_GROUPS_GATE: &str = "DRAWorkloadResourceClaims";
/// The kind of PodGroups. Owner references name it in any version.
pub const POD_GROUP: &str = "scheduling.k8s.io/v1beta1/PodGroup";
/// The group of PodGroups, as consumers name it.
pub const SCHEDULING: &str = "scheduling.k8s.io";

/// A claim that a spec refers to: an existing one, or one that is created from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRef {
    /// The name within the spec.
    pub name: String,
    pub resource_claim_name: Option<String>,
    pub resource_claim_template_name: Option<String>,
}

/// The name of the claim that was created for a [`ClaimRef`], in a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recorded {
    pub name: String,
    /// `None` if no claim is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_name: Option<String>,
}

/// The claim of a [`ClaimRef`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// A claim that a user created.
    Given(&'a str),
    /// A claim that was created from a template.
    Generated(&'a str),
    /// No claim is needed.
    Unneeded,
    /// The claim has not been created from its template yet.
    NotYet,
    /// The reference has none of the known fields.
    Unsupported,
}

/// Returns the claim of a reference, given the status of the pod or PodGroup.
pub fn name<'a>(claim: &'a ClaimRef, recorded: &'a [Recorded]) -> Name<'a> {
    if let Some(name) = &claim.resource_claim_name {
        return Name::Given(name);
    }
    if claim.resource_claim_template_name.is_none() {
        return Name::Unsupported;
    }
    match recorded.iter().find(|one| one.name == claim.name) {
        None => Name::NotYet,
        Some(Recorded {
            resource_claim_name: None,
            ..
        }) => Name::Unneeded,
        Some(Recorded {
            resource_claim_name: Some(name),
            ..
        }) => Name::Generated(name),
    }
}

/// A consumer for which a claim is reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    /// Empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The plural of the kind.
    pub resource: String,
    pub name: String,
    pub uid: String,
}

impl Consumer {
    pub fn is_pod(&self) -> bool {
        self.api_group.is_empty() && self.resource == "pods"
    }

    pub fn is_pod_group(&self) -> bool {
        self.api_group == SCHEDULING && self.resource == "podgroups"
    }
}

/// A pod as the consumer of claims. `group` is the name of its PodGroup, if PodGroups can hold claims for their pods.
#[derive(Clone, Copy, Debug)]
pub struct PodConsumer<'a> {
    pub uid: &'a str,
    pub group: Option<&'a str>,
}

impl PodConsumer<'_> {
    /// Whether a claim was created for the pod or for its PodGroup.
    pub fn owns(&self, claim: &Meta) -> bool {
        let is_of_group = |owner: &OwnerReference| {
            Some(owner.name.as_str()) == self.group && owner.is_of(POD_GROUP)
        };
        claim.is_controlled_by(self.uid) || claim.controller().is_some_and(is_of_group)
    }

    /// Whether a claim is reserved for the pod or for its PodGroup.
    pub fn has_reserved(&self, consumers: &[Consumer]) -> bool {
        consumers.iter().any(|consumer| {
            // A pod does not know the UID of its PodGroup.
            let is_group = || self.group == Some(&consumer.name) && consumer.is_pod_group();
            consumer.uid == self.uid || is_group()
        })
    }
}
