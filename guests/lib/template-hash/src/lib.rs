//! The hash of a pod template.
//!
//! It is in the names of a Deployment's ReplicaSets and of a DaemonSet's ControllerRevisions, and in the labels of their pods.
//! kube-controller-manager hashes a dump of the template as Go holds it, with the names of Go's types and fields, the ones
//! without a value included. So the hash of a template changes with the release of Kubernetes: each new field in the types
//! changes the hashes of all templates. A controller must find what it created by the template, never by the hash.
//!
//! `dump.rs` prints the same text from JSON. It knows the types by `types.txt`, which the program in `generator` writes and
//! `table.rs` reads, and it has code for the types whose JSON says less than the dump, such as quantities.
//!
//! Upstream: pkg/controller/controller_utils.go: ComputeHash.
//! Upstream: pkg/util/hash/hash.go: DeepHashObject.
//! Upstream: pkg/controller/deployment/sync.go: generateReplicaSetName.

mod dump;
mod natural;
mod quantity;
mod table;

use std::fmt::Write as _;

use flyball_hash::{Fnv32a, safe_suffix};
use flyball_sdk::prelude::*;

use crate::dump::Dump;

/// The longest name of an object.
const MAX_NAME: usize = 253;

/// Returns the hash of a pod template. `collisions` is the number of collisions in the status of the template's owner, if
/// it has one.
pub fn template_hash(template: &Raw, collisions: Option<i64>) -> String {
    let mut hash = Fnv32a::default();
    let template = template.value();
    write!(hash, "{}", Dump(&template)).expect("a hash accepts all text");
    if let Some(collisions) = collisions {
        // Upstream writes 32 bits into a buffer of eight bytes.
        let [a, b, c, d, ..] = collisions.to_le_bytes();
        hash.write(&[a, b, c, d, 0, 0, 0, 0]);
    }
    safe_suffix(hash.finish())
}

/// Returns the name of what an owner creates for the template with this hash. The owner's name is cut if the result would be
/// too long.
pub fn name(owner: &str, hash: &str) -> String {
    let most = MAX_NAME.saturating_sub(1 + hash.len());
    // An object's name is ASCII.
    format!("{}-{hash}", owner.get(..most).unwrap_or(owner))
}

#[cfg(test)]
mod tests;
