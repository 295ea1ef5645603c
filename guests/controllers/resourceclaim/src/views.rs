//! The fields that the controller reads.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: isPodDone, needsAdminAccess, hasPrioritizedList.

use flyball_device_claims::{ClaimRef, Consumer, Recorded, SCHEDULING};
use flyball_pods::has_ended;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// The finalizer of allocated claims.
pub(crate) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The annotation of a generated claim with the name under which the spec of its owner refers to it.
pub(crate) const CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub(crate) struct Pod {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub(crate) meta: Meta,
    #[view(path = "spec.resourceClaims")]
    pub(crate) claims: Vec<ClaimRef>,
    #[view(path = "spec.nodeName")]
    pub(crate) node: String,
    /// The name of the pod's PodGroup.
    #[view(path = "spec.schedulingGroup.podGroupName")]
    pub(crate) group: Option<String>,
    #[view(path = "status.phase")]
    pub(crate) phase: String,
    #[view(path = "status.resourceClaimStatuses")]
    pub(crate) recorded: Vec<Recorded>,
    /// The claim that the scheduler created for the pod's extended resources.
    #[view(path = "status.extendedResourceClaimStatus.resourceClaimName")]
    pub(crate) extended: Option<String>,
}

impl Pod {
    /// Whether none of the pod's containers runs or will run.
    pub(crate) fn is_done(&self) -> bool {
        has_ended(&self.phase) || (self.meta.is_deleting() && !self.is_on_node())
    }

    pub(crate) fn is_on_node(&self) -> bool {
        !self.node.is_empty()
    }

    pub(crate) fn user(&self) -> User<'_> {
        User {
            kind: Self::KIND,
            resource: "pods",
            noun: "pod",
            meta: &self.meta,
            claims: &self.claims,
            recorded: &self.recorded,
        }
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(
    kind = "scheduling.k8s.io/v1beta1/PodGroup",
    until(36, "scheduling.k8s.io/v1alpha2/PodGroup")
)]
pub(crate) struct PodGroup {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub(crate) meta: Meta,
    #[view(path = "spec.resourceClaims")]
    pub(crate) claims: Vec<ClaimRef>,
    #[view(path = "status.resourceClaimStatuses")]
    pub(crate) recorded: Vec<Recorded>,
}

impl PodGroup {
    pub(crate) fn user(&self) -> User<'_> {
        User {
            kind: Self::KIND,
            resource: "podgroups",
            noun: "PodGroup",
            meta: &self.meta,
            claims: &self.claims,
            recorded: &self.recorded,
        }
    }
}

/// A pod or a PodGroup, as the owner and the consumer of claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User<'a> {
    pub(crate) kind: &'static str,
    /// The plural, as in a [`Consumer`].
    pub(crate) resource: &'static str,
    /// The kind in messages.
    pub(crate) noun: &'static str,
    pub(crate) meta: &'a Meta,
    pub(crate) claims: &'a [ClaimRef],
    pub(crate) recorded: &'a [Recorded],
}

impl User<'_> {
    /// The kind in the emulated release.
    pub(crate) fn kind_of_release(&self, host: &Host) -> &'static str {
        match self.kind {
            PodGroup::KIND => host.kind::<PodGroup>(),
            kind => kind,
        }
    }

    /// This object as the consumer of a claim.
    pub(crate) fn consumer(&self) -> Consumer {
        let (group, _) = self.kind.split_once('/').unwrap_or_default();
        Consumer {
            // The core group has no name.
            api_group: if group == SCHEDULING { group } else { "" }.into(),
            resource: self.resource.into(),
            name: self.meta.name.clone(),
            uid: self.meta.uid.clone(),
        }
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceClaim")]
pub(crate) struct Claim {
    #[view(path = "metadata")]
    pub(crate) meta: Meta,
    #[view(path = "status")]
    pub(crate) status: ClaimStatus,
}

/// The status of a claim. It is written as a whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimStatus {
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub(crate) reserved_for: Vec<Consumer>,
    /// The other fields. They are written as they were read.
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl ClaimStatus {
    pub(crate) fn is_allocated(&self) -> bool {
        self.others
            .get("allocation")
            .is_some_and(|allocation| !allocation.is_null())
    }

    pub(crate) fn deallocate(&mut self) {
        self.others.remove("allocation");
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceClaimTemplate")]
pub(crate) struct Template {
    /// The labels and annotations that claims inherit.
    #[view(path = "spec.metadata")]
    pub(crate) inherited: Meta,
    /// Copied into claims as it is.
    #[view(path = "spec.spec")]
    pub(crate) spec: Raw,
}

/// The part of a claim's spec that the controller reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    devices: Devices,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Devices {
    #[serde(deserialize_with = "null_is_default")]
    requests: Vec<DeviceRequest>,
}

impl Spec {
    pub(crate) fn needs_admin_access(&self) -> bool {
        self.devices
            .requests
            .iter()
            .any(DeviceRequest::needs_admin_access)
    }

    /// Whether a request lists alternatives.
    pub(crate) fn has_prioritized_list(&self) -> bool {
        self.devices
            .requests
            .iter()
            .any(|request| !request.first_available.is_empty())
    }
}

/// A request for devices. Alternatives have no administrative access.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeviceRequest {
    #[serde(deserialize_with = "null_is_default")]
    exactly: Exactly,
    #[serde(deserialize_with = "null_is_default")]
    first_available: Vec<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exactly {
    #[serde(deserialize_with = "null_is_default")]
    admin_access: bool,
}

impl DeviceRequest {
    pub(crate) fn needs_admin_access(&self) -> bool {
        self.exactly.admin_access
    }
}
