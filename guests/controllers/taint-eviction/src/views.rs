//! The fields that the controller reads.
//!
//! Upstream: pkg/controller/tainteviction/taint_eviction.go: getNoExecuteTaints.

use flyball_sdk::prelude::*;
use flyball_taints::{Taint, Toleration};

/// The index of pods by the names of their nodes.
pub const BY_NODE: &str = "node";

/// A node. The time of a taint is not read, so that its change alone enqueues nothing.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct Node {
    #[view(path = "spec.taints", fields("[*].key", "[*].value", "[*].effect"))]
    pub taints: Vec<Taint>,
}

impl Node {
    /// The taints that evict pods.
    pub fn evicting(self) -> Vec<Taint> {
        self.taints.into_iter().filter(Taint::evicts).collect()
    }
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(
        path = "metadata",
        fields(
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "finalizers",
            "generation"
        )
    )]
    pub meta: Meta,
    #[view(path = "spec.tolerations")]
    pub tolerations: Vec<Toleration>,
    #[view(path = "status.conditions[type=DisruptionTarget]")]
    pub disruption: Option<Condition>,
}
