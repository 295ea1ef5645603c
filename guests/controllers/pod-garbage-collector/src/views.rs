//! The fields that the controller reads.

use flyball_sdk::prelude::*;

/// The index of pods by the names of their nodes.
pub const BY_NODE: &str = "node";
/// The index of pods by their phases.
pub const BY_PHASE: &str = "phase";
/// The index of nodes by the keys of their taints.
pub const BY_TAINT: &str = "taint";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(
        path = "metadata",
        fields("creationTimestamp", "deletionTimestamp", "generation")
    )]
    pub meta: Meta,
    /// The name of the node; empty if it is on none.
    #[view(path = "spec.nodeName")]
    pub node: String,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.reason")]
    pub reason: String,
    #[view(path = "status.conditions[type=DisruptionTarget]")]
    pub disruption: Option<Condition>,
}

impl Pod {
    /// Whether the kubelet evicted the pod.
    pub fn is_evicted(&self) -> bool {
        self.phase == "Failed" && self.reason == "Evicted"
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct Node {
    #[view(path = "metadata.name")]
    pub name: String,
    /// The status of the condition `Ready`.
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: Option<String>,
}

impl Node {
    pub fn is_ready(&self) -> bool {
        self.ready.as_deref() == Some("True")
    }
}
