//! The objects that the plugin reads, reduced to the fields that are used.

use flyball_sdk::StringMap;
use flyball_sdk::prelude::*;
use serde::Deserialize;

/// The annotation with the name of a claim's StorageClass.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "storage.k8s.io/v1/VolumeAttachment")]
pub struct Attachment {
    #[view(path = "metadata", fields("deletionTimestamp", "finalizers"))]
    pub meta: Meta,
    /// The name of the driver.
    #[view(path = "spec.attacher")]
    pub driver: String,
    /// The name of the PersistentVolume; none if a pod's volume was translated to CSI.
    #[view(path = "spec.source.persistentVolumeName")]
    pub volume: Option<String>,
    #[view(path = "status.attached")]
    pub is_attached: bool,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub struct Volume {
    #[view(
        path = "metadata",
        fields("annotations", "deletionTimestamp", "finalizers")
    )]
    pub meta: Meta,
    /// The name of the driver; empty for a volume of another kind.
    #[view(path = "spec.csi.driver")]
    pub driver: String,
    /// The attributes of the volume, with the parameters of its class.
    #[view(path = "spec.csi.volumeAttributes")]
    pub attributes: StringMap,
    #[view(path = "spec.capacity.storage")]
    pub capacity: Quantity,
    #[view(path = "spec.persistentVolumeReclaimPolicy")]
    pub reclaim_policy: String,
    #[view(path = "status.phase")]
    pub phase: String,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub struct Claim {
    #[view(path = "metadata", fields("annotations", "deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "spec.accessModes")]
    pub access_modes: Vec<String>,
    #[view(path = "spec.resources.requests.storage")]
    pub request: Quantity,
    #[view(path = "spec.storageClassName")]
    class: String,
    #[view(path = "spec.volumeAttributesClassName")]
    pub attributes_class: Option<String>,
    #[view(path = "spec.volumeMode")]
    pub volume_mode: Option<String>,
    #[view(path = "spec.volumeName")]
    pub volume_name: String,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.capacity.storage")]
    pub capacity: Quantity,
    #[view(path = "status.conditions", fields("[*].type", "[*].message"))]
    pub conditions: Vec<ClaimCondition>,
}

impl Claim {
    /// The name of the StorageClass. An annotation, which the field has replaced, takes precedence.
    pub fn class(&self) -> &str {
        let annotation = self.meta.annotations.get(CLASS);
        annotation.unwrap_or(&self.class)
    }
}

/// A condition of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimCondition {
    #[serde(rename = "type")]
    pub condition_type: String,
    pub message: String,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "storage.k8s.io/v1/StorageClass")]
pub struct Class {
    #[view(path = "parameters")]
    pub parameters: StringMap,
    #[view(path = "mountOptions")]
    pub mount_options: Vec<String>,
    #[view(path = "reclaimPolicy")]
    pub reclaim_policy: String,
    #[view(path = "volumeBindingMode")]
    pub binding_mode: String,
}
