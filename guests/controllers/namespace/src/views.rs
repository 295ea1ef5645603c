//! The fields that are read of namespaces and their content.

use flyball_sdk::prelude::*;
use serde::Deserialize;

/// A cached namespace.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Namespace")]
pub struct Presence {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
}

/// A namespace read live.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Namespace")]
pub struct Namespace {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    /// The remaining finalizers in its spec.
    #[view(path = "spec.finalizers")]
    pub finalizers: Vec<String>,
    /// `Active` or `Terminating`.
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.conditions")]
    pub conditions: Vec<Condition>,
}

/// A pod, for computing how long its termination may take.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "spec.terminationGracePeriodSeconds")]
    pub grace_seconds: Option<i64>,
}

/// An object of any kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Item {
    pub metadata: Meta,
}

/// The fields that an [`Item`] reads.
pub const ITEM_FIELDS: &[&str] = &["metadata.finalizers"];

impl Pod {
    pub fn has_ended(&self) -> bool {
        flyball_pods::has_ended(&self.phase)
    }
}
