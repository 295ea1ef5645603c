//! The fields that the controller reads.

use flyball_sdk::prelude::*;
use serde::Deserialize;

/// The index of pods by the claims that their volumes name.
pub(crate) const BY_CLAIM: &str = "claim";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub(crate) struct Pod {
    #[view(path = "metadata", fields())]
    pub(crate) meta: Meta,
    #[view(
        path = "spec.securityContext",
        fields("seLinuxOptions", "seLinuxChangePolicy")
    )]
    pub(crate) security: Security,
    #[view(
        path = "spec.containers",
        fields("[*].volumeMounts[*].name", "[*].securityContext.seLinuxOptions")
    )]
    pub(crate) containers: Vec<Container>,
    #[view(
        path = "spec.initContainers",
        fields("[*].volumeMounts[*].name", "[*].securityContext.seLinuxOptions")
    )]
    pub(crate) init_containers: Vec<Container>,
    #[view(
        path = "spec.ephemeralContainers",
        fields("[*].volumeMounts[*].name", "[*].securityContext.seLinuxOptions")
    )]
    pub(crate) ephemeral_containers: Vec<Container>,
    /// With the sources of the kinds of volumes that can have a label.
    #[view(
        path = "spec.volumes",
        fields(
            "[*].name",
            "[*].persistentVolumeClaim.claimName",
            // Each ephemeral volume has it, because the API server defaults it.
            "[*].ephemeral.volumeClaimTemplate.spec.volumeMode",
            "[*].iscsi",
            "[*].fc",
            "[*].awsElasticBlockStore",
            "[*].gcePersistentDisk",
            "[*].azureDisk",
            "[*].azureFile",
            "[*].cinder",
            "[*].vsphereVolume",
            "[*].portworxVolume"
        )
    )]
    pub(crate) volumes: Vec<Value>,
    #[view(path = "status.phase")]
    phase: String,
}

impl Pod {
    /// Whether the pod has ended, so that its volumes are unmounted.
    pub(crate) fn is_done(&self) -> bool {
        is_done(&self.phase)
    }

    /// Returns the name of the claim of a volume: the claim that it names, or that of an ephemeral volume.
    pub(crate) fn claim_of(&self, volume: &Value) -> Option<String> {
        if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            return Some(claim.to_owned());
        }
        let name = volume["name"].as_str().unwrap_or_default();
        is_ephemeral(volume).then(|| format!("{}-{name}", self.meta.name))
    }
}

/// Whether the claim of a volume is created for the pod.
pub(crate) fn is_ephemeral(volume: &Value) -> bool {
    volume["ephemeral"].is_object()
}

pub(crate) fn is_done(phase: &str) -> bool {
    matches!(phase, "Failed" | "Succeeded")
}

/// A pod in a delta.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub(crate) struct PodState {
    #[view(path = "metadata", fields())]
    pub(crate) meta: Meta,
    #[view(path = "status.phase")]
    pub(crate) phase: String,
}

/// The security context of a pod or of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Security {
    #[serde(rename = "seLinuxOptions")]
    pub(crate) options: Option<Options>,
    #[serde(rename = "seLinuxChangePolicy")]
    pub(crate) change_policy: Option<String>,
}

/// The parts of a label. Empty ones are filled in by nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Options {
    pub(crate) user: String,
    pub(crate) role: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) level: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) security_context: Option<Security>,
    pub(crate) volume_mounts: Option<Vec<VolumeMount>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeMount {
    pub(crate) name: String,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub(crate) struct Claim {
    #[view(path = "metadata", fields("ownerReferences"))]
    pub(crate) meta: Meta,
    #[view(path = "spec.volumeName")]
    pub(crate) volume_name: String,
    #[view(path = "status.phase")]
    phase: String,
}

impl Claim {
    pub(crate) fn is_bound(&self) -> bool {
        self.phase == "Bound" && !self.volume_name.is_empty()
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub(crate) struct PersistentVolume {
    #[view(path = "metadata", fields("labels", "annotations"))]
    pub(crate) meta: Meta,
    #[view(
        path = "spec",
        fields(
            "claimRef.namespace",
            "claimRef.name",
            "claimRef.uid",
            "csi.driver",
            "csi.volumeHandle",
            "iscsi",
            "fc",
            "awsElasticBlockStore",
            "gcePersistentDisk",
            "azureDisk",
            "azureFile",
            "cinder",
            "vsphereVolume",
            "portworxVolume"
        )
    )]
    pub(crate) spec: Value,
}

impl PersistentVolume {
    /// Returns the claim that the volume is bound to, and its UID; `None` if it is not bound completely.
    pub(crate) fn claim(&self) -> Option<(Key, &str)> {
        let reference = &self.spec["claimRef"];
        let text = |field: &str| reference[field].as_str().filter(|text| !text.is_empty());
        Some((Key::new(text("namespace")?, text("name")?), text("uid")?))
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "storage.k8s.io/v1/CSIDriver")]
pub(crate) struct Driver {
    #[view(path = "metadata", fields())]
    pub(crate) meta: Meta,
    /// Whether volumes of the driver can be mounted with a label.
    #[view(path = "spec.seLinuxMount")]
    pub(crate) supports_labels: bool,
}
