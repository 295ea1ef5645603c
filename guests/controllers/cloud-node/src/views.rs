//! The fields that the controller reads.

use flyball_cloud::NodeAddress;
use flyball_sdk::prelude::*;

/// The taint of a node that the cloud has not initialised.
pub(crate) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The addresses that a kubelet was started with: one, or two of different families with a comma between them.
pub(crate) const PROVIDED_IP: &str = "alpha.kubernetes.io/provided-node-ip";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub(crate) struct Node {
    #[view(
        path = "metadata",
        fields("annotations", "creationTimestamp", "labels")
    )]
    pub(crate) meta: Meta,
    #[view(path = "spec.providerID")]
    pub(crate) provider_id: String,
    /// Copied as they are: a taint may have fields that are not known here.
    #[view(path = "spec.taints")]
    pub(crate) taints: Vec<Value>,
    #[view(path = "status.addresses")]
    pub(crate) addresses: Vec<NodeAddress>,
}

impl Node {
    /// Whether the node waits for its initialisation.
    pub(crate) fn is_uninitialized(&self) -> bool {
        self.taints.iter().any(is_uninitialized)
    }

    pub(crate) fn provided_ip(&self) -> Option<&str> {
        self.meta.annotation(PROVIDED_IP)
    }

    /// The document of the node for calls of the cloud.
    pub(crate) fn document(&self) -> Value {
        json!({
            "metadata": self.meta,
            "spec": {"providerID": self.provider_id, "taints": self.taints},
            "status": {"addresses": self.addresses},
        })
    }
}

pub(crate) fn is_uninitialized(taint: &Value) -> bool {
    taint["key"] == UNINITIALIZED
}
