//! Server-side apply, by which all writes are made: responders have fields of their own in the same statuses.
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: applyEviction, applyEvictionStatus,
//! applyEvictionRequestStatus.

use flyball_sdk::prelude::*;
use flyball_sdk::{Kind, StringMap, serde_json};
use serde::Serialize;

use crate::NAME;
use crate::views::{Eviction, EvictionRequest, PodReference};

/// What the controller applies to an Eviction outside of its status.
#[derive(Clone, Debug, Default)]
pub struct Labelled {
    pub name: String,
    pub namespace: String,
    pub labels: StringMap,
    pub owners: Vec<OwnerReference>,
    pub target: PodReference,
}

/// Applies a status.
///
/// # Errors
/// The write failed.
pub fn status(host: &Host, kind: &str, meta: &Meta, status: &impl Serialize) -> Result<(), Error> {
    let mut applied = document(kind, &meta.namespace, &meta.name);
    applied["status"] = serde_json::to_value(status).expect("a map with string keys is valid JSON");
    let write = apply(kind, &meta.namespace, &meta.name, &applied).on("status");
    { host.write(write) }
        .doing(|| format!("applying the status of {}", meta.key()))
        .map(drop)
}

/// Applies labels, owners and the target of an Eviction, which is created if it does not exist.
///
/// # Errors
/// The write failed.
pub fn eviction(host: &Host, new: &Labelled) -> Result<(), Error> {
    let mut applied = document(Eviction::KIND, &new.namespace, &new.name);
    let metadata = &mut applied["metadata"];
    if !new.labels.is_empty() {
        metadata["labels"] = json!(new.labels);
    }
    if !new.owners.is_empty() {
        metadata["ownerReferences"] = json!(new.owners);
    }
    applied["spec"] = json!({"target": {"pod": new.target}});
    let write = apply(Eviction::KIND, &new.namespace, &new.name, &applied);
    { host.write(write) }
        .doing(|| format!("applying {}/{}", new.namespace, new.name))
        .map(drop)
}

/// The reference to an EvictionRequest as an owner. It is neither a controller nor blocks its deletion.
pub fn owner(request: &Meta) -> OwnerReference {
    let kind: Kind = EvictionRequest::KIND.parse().expect("a valid kind");
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind,
        name: request.name.clone(),
        uid: request.uid.clone(),
        ..OwnerReference::default()
    }
}

fn document(kind: &str, namespace: &str, name: &str) -> Value {
    let kind: Kind = kind.parse().expect("the kind of a view");
    json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name, "namespace": namespace}})
}

fn apply(kind: &str, namespace: &str, name: &str, applied: &Value) -> Write {
    let write = Write::patch(kind, namespace, name, PatchType::Apply, applied);
    write.field_manager(NAME).force()
}
