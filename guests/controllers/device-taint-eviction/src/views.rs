//! The fields that the controller reads.
//!
//! Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go: ruleMatchesDevice.

use flyball_device_claims::{ClaimRef, Consumer, Recorded};
use flyball_sdk::prelude::*;
use flyball_taints::{NO_EXECUTE, Taint, Toleration};
use serde::Deserialize;

/// The index of pods by the names of the claims in their specs.
pub const BY_CLAIM: &str = "claim";
/// The index of pods by the names of the claims that were created for them.
pub const BY_CREATED_CLAIM: &str = "created-claim";
/// The index of pods by the name of the claim of their extended resources.
pub const BY_EXTENDED_CLAIM: &str = "extended-claim";
/// The index of claims by the pools of their devices, and of slices by their pool.
pub const BY_POOL: &str = "pool";
pub const SLICES_BY_POOL: &str = "slices-of-pool";

/// A pod, without the fields that only its eviction needs.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "spec.nodeName")]
    pub node: String,
    #[view(
        path = "spec.resourceClaims",
        fields("[*].name", "[*].resourceClaimName", "[*].resourceClaimTemplateName")
    )]
    pub claims: Vec<ClaimRef>,
    #[view(
        path = "status.resourceClaimStatuses",
        fields("[*].name", "[*].resourceClaimName")
    )]
    pub created: Vec<Recorded>,
    /// The name of the claim that the scheduler created for the pod's extended resources; empty without one.
    #[view(path = "status.extendedResourceClaimStatus.resourceClaimName")]
    pub extended: String,
    #[view(path = "spec.schedulingGroup.podGroupName")]
    pub group: String,
}

/// A pod as the API server has it, read before its eviction.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct LivePod {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "status.conditions[type=DisruptionTarget]")]
    pub disruption: Option<Condition>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceClaim")]
pub struct Claim {
    #[view(path = "metadata", fields("ownerReferences"))]
    pub meta: Meta,
    /// The allocated devices.
    #[view(
        path = "status.allocation.devices.results",
        fields("[*].driver", "[*].pool", "[*].device", "[*].tolerations")
    )]
    pub devices: Vec<Allocated>,
    #[view(path = "status.reservedFor")]
    pub reserved_for: Vec<Consumer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Allocated {
    pub driver: String,
    pub pool: String,
    pub device: String,
    pub tolerations: Vec<Toleration>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceSlice")]
pub struct Slice {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    #[view(path = "spec.driver")]
    pub driver: String,
    #[view(path = "spec.pool.name")]
    pub pool: String,
    #[view(path = "spec.pool.generation")]
    pub generation: i64,
    #[view(path = "spec.devices", fields("[*].name", "[*].taints"))]
    pub devices: Vec<Device>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Device {
    pub name: String,
    pub taints: Vec<DeviceTaint>,
}

/// A taint of a device, with the time from which it is tolerated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaint {
    pub key: String,
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `None`.
    pub effect: String,
    pub time_added: Option<Time>,
}

impl DeviceTaint {
    pub fn evicts(&self) -> bool {
        self.effect == NO_EXECUTE
    }

    /// The taint in the form that tolerations are compared with.
    pub fn taint(&self) -> Taint {
        Taint {
            key: self.key.clone(),
            value: self.value.clone(),
            effect: self.effect.clone(),
        }
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(
    kind = "resource.k8s.io/v1/DeviceTaintRule",
    until(36, "resource.k8s.io/v1beta2/DeviceTaintRule"),
    until(35, "resource.k8s.io/v1alpha3/DeviceTaintRule")
)]
pub struct Rule {
    #[view(path = "metadata", fields("generation"))]
    pub meta: Meta,
    /// Without a selector, the rule selects no device.
    #[view(path = "spec.deviceSelector")]
    pub selector: Option<DeviceSelector>,
    #[view(path = "spec.taint")]
    pub taint: DeviceTaint,
    #[view(path = "status.conditions[type=EvictionInProgress]")]
    pub condition: Option<Condition>,
}

/// Selects devices. A field that is `None` selects all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    pub driver: Option<String>,
    pub pool: Option<String>,
    pub device: Option<String>,
}

impl Rule {
    pub fn selects(&self, driver: &str, pool: &str, device: &str) -> bool {
        let fits =
            |own: &Option<String>, other: &str| own.as_deref().is_none_or(|own| own == other);
        self.selector.as_ref().is_some_and(|selector| {
            fits(&selector.driver, driver)
                && fits(&selector.pool, pool)
                && fits(&selector.device, device)
        })
    }
}
