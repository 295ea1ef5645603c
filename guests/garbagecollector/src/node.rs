//! The graph of owners, as the host's caches hold it.

use flyball_sdk::prelude::*;
use flyball_sdk::{Kind, Reference};
use serde::Deserialize;

use crate::{FOREGROUND, ORPHAN};

/// An object of whatever kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// As in `apps/v1`.
    pub api_version: String,
    /// As in `ReplicaSet`.
    pub kind: String,
    /// What is known of it.
    pub metadata: Meta,
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
    /// Its kind, as in `apps/v1/ReplicaSet`.
    pub fn kind(&self) -> Kind {
        Kind::of_object(&self.api_version, &self.kind)
    }

    /// What names it.
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

    /// Whether it is what the reference names; in which version does not matter.
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

    /// Whether one of its owners is named just so: with this version, and from where it lies
    /// itself.
    pub fn names(&self, owner: &Reference) -> bool {
        let is_it = |own: &&OwnerReference| {
            own.uid == owner.uid
                && own.name == owner.name
                && Kind::of_object(&own.api_version, &own.kind) == owner.kind
        };
        (owner.namespace.is_empty() || owner.namespace == self.metadata.namespace)
            && self.metadata.owner_references.iter().any(|own| is_it(&own))
    }

    /// Whether the owner of this UID waits for this object to go.
    pub fn blocks(&self, owner: &str) -> bool {
        self.metadata
            .owner_references
            .iter()
            .any(|own| own.uid == owner && own.block_owner_deletion)
    }

    /// Whether it has this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|own| own == finalizer)
    }

    /// Whether it is being deleted, and waits for its dependents.
    pub fn waits_for_dependents(&self) -> bool {
        waits_for_dependents(&self.metadata)
    }

    /// Whether it is being deleted, and leaves its dependents behind.
    pub fn leaves_dependents(&self) -> bool {
        self.metadata.is_deleting() && self.has_finalizer(ORPHAN)
    }
}

/// Whether an object is being deleted, and waits for its dependents.
pub fn waits_for_dependents(meta: &Meta) -> bool {
    meta.is_deleting() && meta.finalizers.iter().any(|own| own == FOREGROUND)
}

/// The object of this UID, wherever it lies; none if the caches hold none.
pub fn observed(host: &Host, uid: &str) -> Result<Option<Node>, Error> {
    Ok(host.list::<Node>().uid(uid).all()?.pop())
}

/// The objects that name this UID as an owner.
pub fn dependents(host: &Host, uid: &str) -> Result<Vec<Node>, Error> {
    host.list::<Node>().owner(uid).all()
}
