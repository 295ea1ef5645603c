//! The fields that the controller reads.

use flyball_sdk::ObjectReference;
use flyball_sdk::prelude::*;

/// The key of the taint of a node whose instance is shut down.
pub(crate) const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
const NO_SCHEDULE: &str = "NoSchedule";

/// A node in the list of all nodes, which are listed as rows.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "v1/Node")]
pub(crate) struct Row {
    #[view(path = "metadata.name")]
    pub(crate) name: String,
    #[view(path = "status.conditions[type=Ready].status")]
    ready: String,
    #[view(path = "spec.taints[*].key")]
    taints: Vec<String>,
}

impl Row {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    /// Whether a pass has something to do for the node.
    pub(crate) fn needs_work(&self) -> bool {
        !self.is_ready() || self.taints.iter().any(|key| key == SHUTDOWN)
    }
}

/// A node that a pass has something to do for.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub(crate) struct Node {
    #[view(path = "metadata", fields())]
    pub(crate) meta: Meta,
    #[view(path = "spec.providerID")]
    pub(crate) provider_id: String,
    /// Copied as they are: a taint may have fields that are not known here.
    #[view(path = "spec.taints")]
    pub(crate) taints: Vec<Value>,
}

impl Node {
    /// The document of the node for calls of the cloud.
    pub(crate) fn document(&self) -> Value {
        let Meta { name, uid, .. } = &self.meta;
        json!({
            "metadata": {"name": name, "uid": uid},
            "spec": {"providerID": self.provider_id, "taints": self.taints},
        })
    }

    /// The node without its version, for events.
    pub(crate) fn reference(&self) -> ObjectReference {
        ObjectReference {
            resource_version: String::new(),
            ..self.meta.reference(Self::KIND)
        }
    }
}

/// Returns the taints with the one of an instance that is shut down. `None` if it is among them.
pub(crate) fn with_shutdown(taints: &[Value]) -> Option<Vec<Value>> {
    let shutdown = json!({"key": SHUTDOWN, "effect": NO_SCHEDULE});
    if taints.contains(&shutdown) {
        return None;
    }
    let mut changed = taints.to_vec();
    match changed.iter_mut().find(|taint| is_shutdown(taint)) {
        Some(other) => *other = shutdown,
        None => changed.push(shutdown),
    }
    Some(changed)
}

/// Returns the taints without the one of an instance that is shut down. `None` if it is not among them.
pub(crate) fn without_shutdown(taints: &[Value]) -> Option<Vec<Value>> {
    let kept = taints.iter().filter(|taint| !is_shutdown(taint));
    let kept: Vec<Value> = kept.cloned().collect();
    (kept.len() < taints.len()).then_some(kept)
}

fn is_shutdown(taint: &Value) -> bool {
    taint["key"] == SHUTDOWN && taint["effect"] == NO_SCHEDULE
}
