//! The fields that the controller reads.
//!
//! Upstream: staging/src/k8s.io/component-helpers/storage/volume/helpers.go: GetPersistentVolumeClaimClass,
//! GetPersistentVolumeClass, PersistentVolumeClaimHasClass.
//! Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go: IsVolumeBoundToClaim.

use std::collections::BTreeMap;

use flyball_sdk::meta::{CoreObjectReference, null_is_default};
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;
use serde::{Deserialize, Serialize};

use crate::names::{BETA_CLASS, BOUND_BY_CONTROLLER};

/// The key of the only capacity that volumes and claims have.
pub(crate) const STORAGE: &str = "storage";
/// The mode of volumes and claims without one.
const FILESYSTEM: &str = "Filesystem";

/// Phases of volumes.
pub(crate) mod volume_phase {
    pub(crate) const AVAILABLE: &str = "Available";
    pub(crate) const BOUND: &str = "Bound";
    pub(crate) const RELEASED: &str = "Released";
    pub(crate) const FAILED: &str = "Failed";
}

/// Phases of claims.
pub(crate) mod claim_phase {
    pub(crate) const PENDING: &str = "Pending";
    pub(crate) const BOUND: &str = "Bound";
    pub(crate) const LOST: &str = "Lost";
}

/// Quantities by resource, as the API has them.
pub(crate) type Amounts = BTreeMap<String, Value>;

/// A PersistentVolume.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub(crate) struct Volume {
    #[view(
        path = "metadata",
        fields("annotations", "deletionTimestamp", "finalizers")
    )]
    pub(crate) meta: Meta,
    #[view(path = "spec.accessModes")]
    pub(crate) access_modes: Vec<String>,
    #[view(path = "spec.capacity")]
    pub(crate) capacity: Amounts,
    #[view(path = "spec.claimRef")]
    pub(crate) claim: Option<CoreObjectReference>,
    #[view(path = "spec.persistentVolumeReclaimPolicy")]
    pub(crate) reclaim_policy: String,
    #[view(path = "spec.storageClassName")]
    pub(crate) class: String,
    #[view(path = "spec.volumeAttributesClassName")]
    pub(crate) attributes_class: Option<String>,
    #[view(path = "spec.volumeMode")]
    pub(crate) mode: Option<String>,
    #[view(path = "status")]
    pub(crate) status: VolumeStatus,
}

/// The status of a volume. It is written as a whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct VolumeStatus {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) phase: String,
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub(crate) message: String,
    /// The other fields. They are written as they were read.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

impl Volume {
    pub(crate) fn has(&self, annotation: &str) -> bool {
        self.meta.annotations.contains_key(annotation)
    }

    pub(crate) fn is_bound_by_controller(&self) -> bool {
        self.has(BOUND_BY_CONTROLLER)
    }

    pub(crate) fn class(&self) -> &str {
        self.meta.annotation(BETA_CLASS).unwrap_or(&self.class)
    }

    /// The storage capacity, if the volume has one.
    pub(crate) fn storage(&self) -> Option<Quantity> {
        amount(&self.capacity)
    }

    pub(crate) fn phase(&self) -> &str {
        &self.status.phase
    }

    /// Whether the volume was found to have lost its claim.
    pub(crate) fn is_released_or_failed(&self) -> bool {
        [volume_phase::RELEASED, volume_phase::FAILED].contains(&self.phase())
    }
}

/// The spec of a volume, for its plugin.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub(crate) struct VolumeSpec {
    #[view(path = "spec")]
    pub(crate) spec: Value,
}

/// A PersistentVolumeClaim.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub(crate) struct Claim {
    #[view(path = "metadata", fields("annotations"))]
    pub(crate) meta: Meta,
    #[view(path = "spec.accessModes")]
    pub(crate) access_modes: Vec<String>,
    #[view(path = "spec.resources.requests")]
    pub(crate) requests: Amounts,
    #[view(path = "spec.selector")]
    pub(crate) selector: Raw,
    #[view(path = "spec.storageClassName")]
    pub(crate) class: Option<String>,
    #[view(path = "spec.volumeAttributesClassName")]
    pub(crate) attributes_class: Option<String>,
    #[view(path = "spec.volumeMode")]
    pub(crate) mode: Option<String>,
    #[view(path = "spec.volumeName")]
    pub(crate) volume: String,
    #[view(path = "status")]
    pub(crate) status: ClaimStatus,
}

/// The status of a claim. It is written as a whole.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimStatus {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access_modes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) capacity: Option<Amounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_volume_attributes_class_name: Option<String>,
    /// The other fields. They are written as they were read.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

impl Claim {
    pub(crate) fn has(&self, annotation: &str) -> bool {
        self.meta.annotations.contains_key(annotation)
    }

    /// Whether the claim has a class, if only the empty one. A claim without a class gets the default one.
    pub(crate) fn has_class(&self) -> bool {
        self.has(BETA_CLASS) || self.class.is_some()
    }

    pub(crate) fn class(&self) -> &str {
        let field = self.class.as_deref().unwrap_or_default();
        self.meta.annotation(BETA_CLASS).unwrap_or(field)
    }

    /// The requested storage.
    pub(crate) fn storage(&self) -> Quantity {
        amount(&self.requests).unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> &str {
        &self.status.phase
    }

    /// Whether a volume is reserved for this claim or bound to it. A reservation by the user has no UID.
    pub(crate) fn is_named_by(&self, claim: Option<&CoreObjectReference>) -> bool {
        claim.is_some_and(|named| {
            named.name == self.meta.name
                && named.namespace == self.meta.namespace
                && (named.uid.is_empty() || named.uid == self.meta.uid)
        })
    }
}

/// The spec of a claim, for provisioners.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub(crate) struct ClaimSpec {
    #[view(path = "spec")]
    pub(crate) spec: Value,
}

/// A StorageClass.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "storage.k8s.io/v1/StorageClass")]
pub(crate) struct Class {
    #[view(path = "metadata", fields("annotations", "creationTimestamp"))]
    pub(crate) meta: Meta,
    #[view(path = "provisioner")]
    pub(crate) provisioner: String,
    #[view(path = "parameters")]
    pub(crate) parameters: Value,
    #[view(path = "mountOptions")]
    pub(crate) mount_options: Vec<String>,
    #[view(path = "reclaimPolicy")]
    pub(crate) reclaim_policy: String,
    #[view(path = "volumeBindingMode")]
    pub(crate) binding_mode: Option<String>,
}

/// A pod, as a user of claims, or as a recycler.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub(crate) struct Pod {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub(crate) meta: Meta,
    #[view(path = "spec.nodeName")]
    pub(crate) node: String,
    #[view(
        path = "spec.volumes",
        fields("[*].name", "[*].persistentVolumeClaim.claimName", "[*].ephemeral")
    )]
    pub(crate) volumes: Vec<PodVolume>,
    #[view(path = "status.phase")]
    pub(crate) phase: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodVolume {
    pub(crate) name: String,
    /// Present if a claim is created for the pod.
    pub(crate) ephemeral: Option<serde::de::IgnoredAny>,
}

/// A node. Only its existence matters.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub(crate) struct Node {
    #[view(path = "metadata", fields())]
    pub(crate) meta: Meta,
}

/// An event about a pod.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Event")]
pub(crate) struct PodEvent {
    #[view(path = "metadata", fields())]
    pub(crate) meta: Meta,
    #[view(path = "involvedObject.name")]
    pub(crate) pod: String,
    #[view(path = "involvedObject.uid")]
    pub(crate) pod_uid: String,
    #[view(path = "type")]
    pub(crate) event_type: String,
    #[view(path = "message")]
    pub(crate) message: String,
}

/// Whether a volume and a claim have different modes.
pub(crate) fn modes_differ(claim: Option<&str>, volume: Option<&str>) -> bool {
    claim.unwrap_or(FILESYSTEM) != volume.unwrap_or(FILESYSTEM)
}

/// The storage among amounts. The API server stores only valid quantities.
fn amount(amounts: &Amounts) -> Option<Quantity> {
    Quantity::deserialize(amounts.get(STORAGE)?).ok()
}
