//! Determines from discovery which kinds may have deletable objects in a namespace.
//!
//! Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go: deleteAllContent, initOpCache.

use std::collections::BTreeSet;

use flyball_sdk::Kind;
use flyball_sdk::discovery::{Catalogue, DiscoveryFailure, ServedKind};
use flyball_sdk::prelude::*;

/// The result of discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// The kinds, each in the version in which its objects are deleted.
    pub deletable: Vec<Deletable>,
    /// Why the list may be incomplete.
    pub undiscovered: Option<String>,
    /// The first group version with an invalid name.
    pub unparsable: Option<String>,
}

/// A namespaced kind whose objects can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletable {
    /// Such as `apps/v1/Deployment`.
    pub kind: String,
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1`.
    pub version: String,
    /// Such as `deployments`.
    pub plural: String,
    /// Whether the kind supports `deletecollection`.
    pub has_delete_collection: bool,
    /// Whether the kind supports `list`.
    pub has_list: bool,
}

impl Deletable {
    /// Whether these are pods, which are deleted first.
    pub fn is_pods(&self) -> bool {
        self.kind == "v1/Pod" && self.plural == "pods"
    }

    /// The name in conditions: `deployments.apps`, and `pods.` in the core group.
    pub fn resource(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// Returns the deletable kinds of a discovery result. Group versions whose discovery failed are skipped, because their
/// known kinds may be outdated.
pub fn deletable(found: Result<Catalogue, Error>) -> Kinds {
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            return Kinds {
                undiscovered: Some(error.message()),
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
                kinds.unparsable.get_or_insert_with(message);
            }
            continue;
        };
        // The preferred version comes first. A kind that can't be deleted in that version is not
        // deleted in another.
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

/// The message about group versions whose discovery failed; `None` if there are none.
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
