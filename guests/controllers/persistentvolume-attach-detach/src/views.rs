//! The fields that the controller reads.
//!
//! Upstream: pkg/util/node/node.go: IsNodeReady.
//! Upstream: pkg/util/taints/taints.go: TaintKeyExists.

use flyball_pods::containers::{self, Container};
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The taint of a node that was shut down. Volumes are detached from it at once.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The annotation of a node whose kubelet leaves it to this controller to attach volumes.
pub const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "spec.nodeName")]
    pub node: String,
    /// The volumes, with the sources of those that a plugin may attach.
    #[view(
        path = "spec.volumes",
        fields(
            "[*].name",
            "[*].persistentVolumeClaim.claimName",
            "[*].ephemeral.volumeClaimTemplate.spec.volumeMode",
            "[*].csi.driver",
            "[*].fc",
            "[*].iscsi",
            "[*].awsElasticBlockStore",
            "[*].azureDisk",
            "[*].azureFile",
            "[*].cinder",
            "[*].gcePersistentDisk",
            "[*].portworxVolume",
            "[*].vsphereVolume"
        )
    )]
    pub volumes: Vec<Value>,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.initContainerStatuses", fields("[*].state"))]
    pub init_containers: Vec<Container>,
    #[view(path = "status.containerStatuses", fields("[*].state"))]
    pub containers: Vec<Container>,
    #[view(path = "status.ephemeralContainerStatuses", fields("[*].state"))]
    pub ephemeral_containers: Vec<Container>,
}

impl Pod {
    /// Whether the pod needs no volumes any more.
    pub fn is_terminated(&self) -> bool {
        let containers = { self.init_containers.iter() }
            .chain(&self.containers)
            .chain(&self.ephemeral_containers);
        containers::is_terminated(&self.phase, self.meta.is_deleting(), containers)
    }
}

/// A claim for a volume.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub struct Claim {
    #[view(path = "metadata", fields("ownerReferences"))]
    pub meta: Meta,
    /// The name of its PersistentVolume; empty if it has none.
    #[view(path = "spec.volumeName")]
    pub volume: String,
    #[view(path = "status.phase")]
    pub phase: String,
}

impl Claim {
    pub fn is_bound(&self) -> bool {
        self.phase == "Bound" && !self.volume.is_empty()
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub struct PersistentVolume {
    /// The labels and the annotation that are part of the handles of translated volumes.
    #[view(
        path = "metadata",
        fields(
            "annotations['kubernetes.io/azure-file-resource-group']",
            "labels['failure-domain.beta.kubernetes.io/zone']",
            "labels['topology.kubernetes.io/zone']"
        )
    )]
    pub meta: Meta,
    #[view(
        path = "spec",
        fields(
            "accessModes",
            "claimRef.name",
            "claimRef.namespace",
            "claimRef.uid",
            "csi.driver",
            "csi.volumeHandle",
            "fc",
            "iscsi",
            "awsElasticBlockStore",
            "azureDisk",
            "azureFile",
            "cinder",
            "gcePersistentDisk",
            "portworxVolume",
            "vsphereVolume"
        )
    )]
    pub spec: Value,
}

impl PersistentVolume {
    /// The key of the claim that the volume is reserved for.
    pub fn claim(&self) -> Option<Key> {
        let claim = &self.spec["claimRef"];
        Some(Key::new(
            claim["namespace"].as_str()?,
            claim["name"].as_str()?,
        ))
    }

    /// The UID of that claim.
    pub fn claim_uid(&self) -> Option<&str> {
        self.spec["claimRef"]["uid"].as_str()
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct Node {
    #[view(
        path = "metadata",
        fields("annotations['volumes.kubernetes.io/controller-managed-attach-detach']")
    )]
    pub meta: Meta,
    #[view(path = "spec.taints[*].key")]
    taints: Vec<String>,
    /// The status of the condition `Ready`.
    #[view(path = "status.conditions[type=Ready].status")]
    ready: Option<String>,
    /// The names of the volumes that the kubelet uses.
    #[view(path = "status.volumesInUse")]
    pub in_use: Vec<String>,
    #[view(path = "status.volumesAttached")]
    pub attached: Vec<ReportedVolume>,
}

/// An entry of `status.volumesAttached`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedVolume {
    pub name: String,
    pub device_path: String,
}

impl Node {
    /// Whether this controller attaches the volumes of the node's pods. Otherwise its kubelet does.
    pub fn is_managed(&self) -> bool {
        self.meta.annotation(MANAGED).is_some()
    }

    pub fn is_ready(&self) -> bool {
        self.ready.as_deref() == Some("True")
    }

    pub fn is_out_of_service(&self) -> bool {
        self.taints.iter().any(|key| key == OUT_OF_SERVICE)
    }

    pub fn uses(&self, volume: &str) -> bool {
        self.in_use.iter().any(|name| name == volume)
    }
}

/// A VolumeAttachment.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "storage.k8s.io/v1/VolumeAttachment")]
pub struct Attachment {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "spec.nodeName")]
    pub node: String,
    /// The name of the PersistentVolume; `None` if a pod's volume was translated to one.
    #[view(path = "spec.source.persistentVolumeName")]
    pub volume: Option<String>,
    /// The spec of the PersistentVolume that a pod's volume was translated to.
    #[view(
        path = "spec.source.inlineVolumeSpec",
        fields("accessModes", "csi.driver", "csi.volumeHandle")
    )]
    pub inline: Value,
    #[view(path = "status.attached")]
    pub is_attached: bool,
    #[view(path = "status.attachError")]
    pub attach_error: Option<Failure>,
    #[view(path = "status.detachError")]
    pub detach_error: Option<Failure>,
}

/// The error of an attacher.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Failure {
    pub message: String,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "storage.k8s.io/v1/CSIDriver")]
pub struct Driver {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "spec.attachRequired")]
    pub attach_required: Option<bool>,
}

impl Driver {
    pub fn requires_attachment(&self) -> bool {
        self.attach_required != Some(false)
    }
}
