//! States in which the API shows an object only for a moment: between two writes, or between a deletion and its end.

use serde_json::{Value, json};

/// A state.
pub struct State {
    pub name: &'static str,
    pub change: Change,
    /// Whether the object is gone afterwards.
    pub ends: bool,
}

/// How an object gets into a state.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// It is edited. The function returns whether an object like this can be in the state.
    Edited(fn(&mut Value) -> bool),
    /// It is removed, although others name it as their owner.
    OwnerRemoved,
}

/// The time of deletions, which is the start of the cluster's clock.
const DELETED_AT: &str = "2026-01-01T00:00:00Z";
const FOREIGN_FINALIZER: &str = "example.com/held";

/// All states.
pub static STATES: &[State] = &[
    // A pod in its kubelet's last step: its grace period is 0, and it is not yet gone.
    State {
        name: "last-step",
        change: Change::Edited(|object| {
            let is_pod = object["kind"] == "Pod" && object["metadata"]["finalizers"].is_null();
            if is_pod {
                object["metadata"]["deletionTimestamp"] = DELETED_AT.into();
                object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            }
            is_pod
        }),
        ends: true,
    },
    // A deleted object that only finalizers of others keep.
    State {
        name: "foreign-finalizer",
        change: Change::Edited(|object| {
            object["metadata"]["deletionTimestamp"] = DELETED_AT.into();
            object["metadata"]["finalizers"] = json!([FOREIGN_FINALIZER]);
            object["kind"] != "Namespace"
        }),
        ends: true,
    },
    // A deleted object whose finalizers are yet to be removed.
    State {
        name: "own-finalizer",
        change: Change::Edited(|object| {
            object["metadata"]["deletionTimestamp"] = DELETED_AT.into();
            object["metadata"]["finalizers"].is_array()
        }),
        ends: false,
    },
    // The spec was changed, and the status is yet to follow.
    State {
        name: "generation-behind",
        change: Change::Edited(|object| {
            let Some(observed) = object["status"]["observedGeneration"].as_i64() else {
                return false;
            };
            object["metadata"]["generation"] = (observed + 1).into();
            true
        }),
        ends: false,
    },
    // A node is not ready, and is yet to be tainted.
    State {
        name: "no-taint-yet",
        change: Change::Edited(|object| {
            object["spec"]["taints"] = Value::Null;
            object["status"]["conditions"] = json!([{"type": "Ready", "status": "Unknown"}]);
            object["kind"] == "Node"
        }),
        ends: false,
    },
    // A node is ready again, and still has the taint.
    State {
        name: "taint-still",
        change: Change::Edited(|object| {
            object["spec"]["taints"] =
                json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
            object["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            object["kind"] == "Node"
        }),
        ends: false,
    },
    // An endpoint was removed, and its successor is yet to be added.
    State {
        name: "slice-between-writes",
        change: Change::Edited(|object| {
            let endpoints = object["endpoints"].as_array_mut();
            let had_one = endpoints.is_some_and(|endpoints| endpoints.pop().is_some());
            object["kind"] == "EndpointSlice" && had_one
        }),
        ends: false,
    },
    // The owner is gone, and its dependents are yet to be deleted.
    State {
        name: "owner-gone",
        change: Change::OwnerRemoved,
        ends: false,
    },
    // A namespace is being deleted.
    State {
        name: "namespace-terminating",
        change: Change::Edited(|object| {
            object["metadata"]["deletionTimestamp"] = DELETED_AT.into();
            object["status"]["phase"] = "Terminating".into();
            object["kind"] == "Namespace"
        }),
        ends: false,
    },
];
