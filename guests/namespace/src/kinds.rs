//! Which kinds may have objects in a namespace that can be deleted, by what the API server serves.

use std::collections::BTreeSet;

use flyball_sdk::Kind;
use flyball_sdk::discovery::{Catalogue, DiscoveryFailure, ServedKind};
use flyball_sdk::prelude::*;

use crate::failure::said;

/// What discovery came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// The kinds, each in the one version in which its objects are deleted.
    pub deletable: Vec<Deletable>,
    /// Why there may be more of them.
    pub undiscovered: Option<String>,
    /// The first group version whose name makes no sense.
    pub unreadable: Option<String>,
}

/// A kind whose objects lie in namespaces and can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletable {
    /// As in `apps/v1/Deployment`.
    pub kind: String,
    /// Empty for the core group.
    pub group: String,
    /// As in `v1`.
    pub version: String,
    /// As in `deployments`.
    pub plural: String,
    /// Whether all of a namespace can be deleted at once.
    pub has_delete_collection: bool,
    /// Whether they can be listed.
    pub has_list: bool,
}

impl Deletable {
    /// Whether these are pods, which go first.
    pub fn is_pods(&self) -> bool {
        self.kind == "v1/Pod" && self.plural == "pods"
    }

    /// As conditions name it: `deployments.apps`, and `pods.` in the core group.
    pub fn resource(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// What is deletable of what discovery found. A group version whose discovery failed counts as not
/// served: what is known of it may be out of date.
pub fn deletable(found: Result<Catalogue, Error>) -> Kinds {
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            return Kinds {
                undiscovered: Some(said(&error)),
                ..Kinds::default()
            };
        }
    };
    let mut kinds = Kinds {
        undiscovered: incomplete(&found.failures),
        ..Kinds::default()
    };
    let mut seen = BTreeSet::new();
    for served in found
        .kinds
        .iter()
        .filter(|served| found.knows(served.group_version()))
    {
        let is_deletable = served.namespaced && served.has_verb("delete");
        let Ok(Kind { group, version, .. }) = served.kind.parse() else {
            if is_deletable {
                let message =
                    || format!("unexpected GroupVersion string: {}", served.group_version());
                kinds.unreadable.get_or_insert_with(message);
            }
            continue;
        };
        // The preferred version comes first; what can't be deleted in that is deleted in no other.
        if seen.insert((group.clone(), served.plural.clone())) && is_deletable {
            kinds.deletable.push(of(served, group, version));
        }
    }
    kinds
}

fn of(served: &ServedKind, group: String, version: String) -> Deletable {
    Deletable {
        kind: served.kind.clone(),
        group,
        version,
        plural: served.plural.clone(),
        has_delete_collection: served.has_verb("deletecollection"),
        has_list: served.has_verb("list"),
    }
}

/// What is said of group versions whose discovery failed; none if there are none.
fn incomplete(failures: &[DiscoveryFailure]) -> Option<String> {
    let mut groups: Vec<String> = failures
        .iter()
        .map(|failure| format!("{}: {}", failure.group_version, failure.message))
        .collect();
    groups.sort();
    (!groups.is_empty()).then(|| {
        format!(
            "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
            groups.len(),
            groups.join(", ")
        )
    })
}
