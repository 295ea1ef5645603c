//! What is read of namespaces and of what lies in them.

use flyball_sdk::prelude::*;
use serde::Deserialize;

view! {
    /// What the cache keeps of a namespace: whether it is being deleted.
    pub struct Presence: "v1/Namespace" {
        /// Its name, and since when it is being deleted.
        pub meta: Meta = "metadata" [".deletionTimestamp"],
    }

    /// A namespace, as the API server has it.
    pub struct Namespace: "v1/Namespace" {
        /// Its name, version and UID, and since when it is being deleted.
        pub meta: Meta = "metadata" [".deletionTimestamp"],
        /// Who still has to let it go.
        pub finalizers: Vec<String> = "spec.finalizers",
        /// `Active` or `Terminating`.
        pub phase: String = "status.phase",
        /// How its deletion goes.
        pub conditions: Vec<Condition> = "status.conditions",
    }

    /// A pod, for how long its end may take.
    pub struct Pod: "v1/Pod" {
        /// `Succeeded` and `Failed` are the ends of it.
        pub phase: String = "status.phase",
        /// How long it may take to stop, in seconds.
        pub grace_seconds: Option<i64> = "spec.terminationGracePeriodSeconds",
    }
}

/// An object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Item {
    /// Its name and UID, and what holds it.
    pub metadata: Meta,
}

/// What is read of an [`Item`].
pub const ITEM_FIELDS: &[&str] = &["metadata.finalizers"];

impl Pod {
    /// Whether its containers have ended for good.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}
