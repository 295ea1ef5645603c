//! The fields that the controller reads of nodes.
//!
//! Upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go: SetNodes, hasExcludedLabels.

use flyball_sdk::prelude::*;

/// The zone of a node, for its endpoints.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct NodeZone {
    #[view(path = "metadata.name")]
    pub name: String,
    /// Empty if it has none.
    #[view(path = "metadata.labels['topology.kubernetes.io/zone']")]
    pub zone: String,
}

/// The part of a node that adds to the capacity of its zone.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct NodeCapacity {
    #[view(path = "metadata.labels['topology.kubernetes.io/zone']")]
    pub zone: String,
    #[view(path = "metadata.labels['node-role.kubernetes.io/control-plane']")]
    pub control_plane: Option<String>,
    #[view(path = "metadata.labels['node-role.kubernetes.io/master']")]
    pub master: Option<String>,
    #[view(path = "status.allocatable.cpu")]
    pub cpu: Quantity,
    /// The status of the condition Ready: `True`, `False` or `Unknown`.
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: String,
}

impl NodeCapacity {
    /// Whether the CPUs of the node count for its zone: it is ready, and not a node of the control plane.
    pub fn is_eligible(&self) -> bool {
        self.control_plane.is_none() && self.master.is_none() && self.ready == "True"
    }
}
