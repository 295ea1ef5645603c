//! What is read of namespaces and of what lies in them.

use flyball_sdk::prelude::*;
use serde::Deserialize;

/// What the cache keeps of a namespace: whether it is being deleted.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Namespace")]
pub struct Presence {
    /// Its name, and since when it is being deleted.
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
}

/// A namespace, as the API server has it.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Namespace")]
pub struct Namespace {
    /// Its name, version and UID, and since when it is being deleted.
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    /// Who still has to let it go.
    #[view(path = "spec.finalizers")]
    pub finalizers: Vec<String>,
    /// `Active` or `Terminating`.
    #[view(path = "status.phase")]
    pub phase: String,
    /// How its deletion goes.
    #[view(path = "status.conditions")]
    pub conditions: Vec<Condition>,
}

/// A pod, for how long its end may take.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    /// `Succeeded` and `Failed` are the ends of it.
    #[view(path = "status.phase")]
    pub phase: String,
    /// How long it may take to stop, in seconds.
    #[view(path = "spec.terminationGracePeriodSeconds")]
    pub grace_seconds: Option<i64>,
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
        flyball_sdk::pod::has_ended(&self.phase)
    }
}
