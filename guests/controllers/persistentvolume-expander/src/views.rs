//! The fields that the controller reads.
//!
//! Upstream: pkg/volume/plugins.go: IsKubeletExpandable, KubeletExpandablePluginName, FindExpandablePluginBySpec.
//! Upstream: pkg/volume/csimigration/plugin_manager.go: IsMigratable.

use flyball_csi_translation::{Plugin, plugin_of};
use flyball_sdk::prelude::*;

/// The annotation of a claim that names the driver whose resizer is to expand its volume.
pub(crate) const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
/// The annotation of a volume with the capacity of its claim before an expansion that a node has yet to complete.
pub(crate) const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub(crate) struct Claim {
    #[view(path = "metadata", fields("annotations"))]
    pub(crate) meta: Meta,
    #[view(path = "spec.volumeName")]
    pub(crate) volume_name: String,
    #[view(path = "spec.resources.requests.storage")]
    pub(crate) request: Quantity,
    #[view(path = "status.phase")]
    phase: String,
    #[view(path = "status.capacity.storage")]
    pub(crate) capacity: Quantity,
    /// The size of the expansion in progress.
    #[view(path = "status.allocatedResources.storage")]
    pub(crate) allocated: Option<Quantity>,
    /// The state of the expansion in progress.
    #[view(path = "status.allocatedResourceStatuses.storage")]
    pub(crate) resize_status: String,
    #[view(path = "status.conditions")]
    pub(crate) conditions: Vec<Condition>,
}

impl Claim {
    pub(crate) fn is_bound(&self) -> bool {
        self.phase == "Bound"
    }

    /// Whether the request or the capacity is larger than before.
    pub(crate) fn has_grown_since(&self, before: &Self) -> bool {
        self.meta.uid != before.meta.uid
            || self.request > before.request
            || self.capacity > before.capacity
    }

    /// Whether the request is larger than the capacity.
    pub(crate) fn wants_more(&self) -> bool {
        self.request > self.capacity
    }

    pub(crate) fn has_resizer(&self, driver: &str) -> bool {
        self.meta.annotation(RESIZER) == Some(driver)
    }
}

/// A volume in the cache.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub(crate) struct CachedVolume {
    #[view(path = "metadata.annotations['volume.alpha.kubernetes.io/pre-resize-capacity']")]
    pub(crate) pre_resize_capacity: Option<String>,
}

/// A volume that was read from the API server.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub(crate) struct Volume {
    #[view(path = "metadata", fields("annotations"))]
    pub(crate) meta: Meta,
    /// Has the source, whose field depends on the volume's kind.
    #[view(path = "spec")]
    spec: Value,
}

/// Expands a volume.
#[derive(Clone, Debug)]
pub(crate) enum Expander {
    /// The resizer of the CSI driver that has replaced this plugin.
    MigratedTo(&'static Plugin),
    /// A FlexVolume's driver with this name, on the node that uses the volume.
    Kubelet(String),
    /// A resizer of which nothing is known here.
    External,
}

impl Volume {
    pub(crate) fn is_bound_to(&self, claim: &Claim) -> bool {
        let reference = &self.spec["claimRef"];
        reference["namespace"] == claim.meta.namespace && reference["uid"] == claim.meta.uid
    }

    pub(crate) fn is_resizing(&self) -> bool {
        self.meta.annotations.contains_key(PRE_RESIZE_CAPACITY)
    }

    pub(crate) fn capacity(&self) -> Quantity {
        let text = self.spec["capacity"]["storage"].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn has_file_system(&self) -> bool {
        self.spec["volumeMode"] != "Block"
    }

    pub(crate) fn expander(&self) -> Expander {
        if let Some(plugin) = plugin_of(&self.spec) {
            return Expander::MigratedTo(plugin);
        }
        match &self.spec["flexVolume"] {
            Value::Object(flex) => {
                let driver = flex.get("driver").and_then(Value::as_str);
                Expander::Kubelet(driver.unwrap_or_default().to_owned())
            }
            _ => Expander::External,
        }
    }
}
