//! The ownership graph in the host's cache.
//!
//! Upstream: pkg/controller/garbagecollector/graph.go: blockingDependents, isDeletingDependents,
//! ownerReferenceCoordinates, ownerReferenceMatchesCoordinates.
//! Upstream: pkg/controller/garbagecollector/graph_builder.go: hasDeleteDependentsFinalizer, hasOrphanFinalizer.

use flyball_sdk::prelude::*;
use flyball_sdk::{Kind, Reference};
use serde::{Deserialize, Serialize};

use crate::{FOREGROUND, ORPHAN, PORTION};

/// An object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `ReplicaSet`.
    pub kind: String,
    pub metadata: Meta,
}

/// Whether the objects of a kind are in namespaces.
///
/// A reference without a namespace doesn't tell the scope: a cluster-scoped object may refer to a namespaced owner in
/// this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    Namespaced,
    /// Dependents in all namespaces refer to such an owner.
    Cluster,
}

impl View for Node {
    const KIND: &'static str = "*";
    const FIELDS: &'static [&'static str] = &[
        "metadata.deletionTimestamp",
        "metadata.finalizers",
        "metadata.ownerReferences",
    ];
}

impl Node {
    /// The kind, such as `apps/v1/ReplicaSet`.
    pub fn kind(&self) -> Kind {
        Kind::of_object(&self.api_version, &self.kind)
    }

    pub fn scope(&self) -> Scope {
        match self.metadata.namespace.as_str() {
            "" => Scope::Cluster,
            _ => Scope::Namespaced,
        }
    }

    pub fn reference(&self) -> Reference {
        let Meta {
            namespace,
            name,
            uid,
            ..
        } = self.metadata.clone();
        Reference {
            kind: self.kind(),
            namespace,
            name,
            uid,
        }
    }

    /// Whether the reference refers to this object. The version is ignored.
    pub fn is(&self, named: &Reference) -> bool {
        let Meta {
            namespace,
            name,
            uid,
            ..
        } = &self.metadata;
        self.kind().group == named.kind.group
            && self.kind == named.kind.kind
            && (namespace, name, uid) == (&named.namespace, &named.name, &named.uid)
    }

    /// Whether one of the object's owner references is exactly this one, including the version, seen from the object's
    /// own namespace. `scope` is the scope of the owner.
    pub fn names(&self, owner: &Reference, scope: Scope) -> bool {
        let is_it = |own: &&OwnerReference| {
            own.uid == owner.uid
                && own.name == owner.name
                && Kind::of_object(&own.api_version, &own.kind) == owner.kind
        };
        (scope == Scope::Cluster || owner.namespace == self.metadata.namespace)
            && self.metadata.owner_references.iter().any(|own| is_it(&own))
    }

    /// Whether the object's owner reference with this UID has `blockOwnerDeletion`.
    pub fn blocks(&self, owner: &str) -> bool {
        self.metadata
            .owner_references
            .iter()
            .any(|own| own.uid == owner && own.block_owner_deletion)
    }

    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|own| own == finalizer)
    }

    /// Whether the object is being deleted and waits for its dependents.
    pub fn waits_for_dependents(&self) -> bool {
        waits_for_dependents(&self.metadata)
    }

    /// Whether the object is being deleted and orphans its dependents.
    pub fn orphans_dependents(&self) -> bool {
        self.metadata.is_deleting() && self.has_finalizer(ORPHAN)
    }
}

/// Whether an object is being deleted and waits for its dependents.
pub fn waits_for_dependents(meta: &Meta) -> bool {
    meta.is_deleting() && meta.finalizers.iter().any(|own| own == FOREGROUND)
}

/// Returns the cached object with this UID, in any namespace.
pub fn cached(host: &Host, uid: &str) -> Result<Option<Node>, Error> {
    Ok(host.list::<Node>().uid(uid).all()?.pop())
}

/// Dependents that are read at a time. An owner may have more of them than fit the memory of an instance.
const PAGE: u32 = 1000;

/// Visits the cached objects that have an owner with this UID, until `visit` returns a value, and
/// returns that.
pub fn find_dependent<R>(
    host: &Host,
    owner: &str,
    visit: impl FnMut(Node) -> Option<R>,
) -> Result<Option<R>, Error> {
    host.list::<Node>().owner(owner).find_map(PAGE, visit)
}

/// Returns at most [`PORTION`](crate::PORTION) of the cached objects that have an owner with this
/// UID, without the first `skipped` ones.
pub fn portion(host: &Host, owner: &str, skipped: u32) -> Result<Vec<Node>, Error> {
    let dependents = host.list::<Node>().owner(owner).skip(skipped);
    dependents.first(PORTION)
}
