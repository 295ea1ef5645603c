//! The fields that the controller reads.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: isNodeExcludedFromDisruptionChecks.

use flyball_sdk::prelude::*;
use flyball_taints::Taint;

/// The index of pods by the names of their nodes.
pub const BY_NODE: &str = "node";
/// The namespace of the leases that kubelets renew.
pub const LEASES: &str = "kube-node-lease";
/// The status of a condition that the kubelet does not report.
pub const UNKNOWN: &str = "Unknown";

/// The fields of a node that each pass of the monitor reads, as a row.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "v1/Node")]
pub struct Health {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.uid")]
    pub uid: String,
    #[view(path = "metadata.labels['failure-domain.beta.kubernetes.io/region']")]
    pub old_region: Option<String>,
    #[view(path = "metadata.labels['topology.kubernetes.io/region']")]
    pub region: Option<String>,
    #[view(path = "metadata.labels['failure-domain.beta.kubernetes.io/zone']")]
    pub old_zone: Option<String>,
    #[view(path = "metadata.labels['topology.kubernetes.io/zone']")]
    pub zone: Option<String>,
    #[view(path = "metadata.labels['node.kubernetes.io/exclude-disruption']")]
    pub exclusion: Option<String>,
    /// The status of the condition `Ready`; `None` if the kubelet has not reported it yet.
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: Option<String>,
    #[view(path = "status.conditions[type=Ready].lastHeartbeatTime")]
    pub heartbeat: Option<String>,
    #[view(path = "spec.taints")]
    pub taints: Vec<Taint>,
}

impl Health {
    pub fn is_excluded(&self) -> bool {
        self.exclusion.is_some()
    }
}

/// A kubelet's lease, as a row.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "coordination.k8s.io/v1/Lease")]
pub struct Lease {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "spec.renewTime")]
    pub renewed: Option<String>,
}

/// The fields of a node that a write needs. Lists are kept as they are, because patches replace them.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct Node {
    #[view(
        path = "metadata",
        fields(
            "creationTimestamp",
            "labels['kubernetes.io/os']",
            "labels['kubernetes.io/arch']",
            "labels['beta.kubernetes.io/os']",
            "labels['beta.kubernetes.io/arch']"
        )
    )]
    pub meta: Meta,
    #[view(path = "spec.unschedulable")]
    pub unschedulable: bool,
    #[view(path = "spec.taints")]
    pub taints: Vec<Value>,
    #[view(path = "status.conditions")]
    pub conditions: Vec<Value>,
}

impl Node {
    /// The status of a condition.
    pub fn status_of(&self, condition: &str) -> Option<&str> {
        let found = self.conditions.iter().find(|one| one["type"] == condition);
        found.and_then(|found| found["status"].as_str())
    }
}

/// A pod, as a row.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata.namespace")]
    pub namespace: String,
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.uid")]
    pub uid: String,
    #[view(path = "metadata.resourceVersion")]
    pub resource_version: String,
    /// The status of the condition `Ready`.
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: Option<String>,
}
