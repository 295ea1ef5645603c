//! The kinds that the server serves, as aggregated discovery.

use flyball_types::Kind;
use serde_json::{Value, json};

/// A kind that the server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub kind: Kind,
    /// The name in paths, as in `deployments`.
    pub plural: String,
    pub namespaced: bool,
}

/// The verbs of every kind.
pub const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The resources of each version of a group, in the order in which they were added.
type Versions<'a> = Vec<(&'a str, Vec<Value>)>;

/// Returns the document of the core group (`/api`), or of the named groups (`/apis`).
pub fn groups(kinds: &[Served], core: bool) -> Value {
    let mut groups: Vec<(&str, Versions<'_>)> = Vec::new();
    for served in kinds {
        let (group, version) = (&*served.kind.group, &*served.kind.version);
        if group.is_empty() != core {
            continue;
        }
        let versions = entry(&mut groups, group);
        entry(versions, version).push(resource(served));
    }
    let items = groups.into_iter().map(|(name, versions)| {
        let versions = versions
            .into_iter()
            .map(|(version, resources)| json!({"version": version, "resources": resources, "freshness": "Current"}));
        json!({"metadata": {"name": name}, "versions": versions.collect::<Value>()})
    });
    json!({
        "apiVersion": "apidiscovery.k8s.io/v2",
        "kind": "APIGroupDiscoveryList",
        "metadata": {},
        "items": items.collect::<Value>(),
    })
}

/// The value of a key, which is added if it is new. Keeps the order.
fn entry<'a, 'k, T: Default>(entries: &'a mut Vec<(&'k str, T)>, key: &'k str) -> &'a mut T {
    let at = entries.iter().position(|(own, _)| *own == key);
    let at = at.unwrap_or_else(|| {
        entries.push((key, T::default()));
        entries.len() - 1
    });
    &mut entries[at].1
}

fn resource(served: &Served) -> Value {
    let Kind {
        group,
        version,
        kind,
    } = &served.kind;
    let response_kind = json!({"group": group, "version": version, "kind": kind});
    json!({
        "resource": served.plural,
        "responseKind": response_kind,
        "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
        "verbs": VERBS,
        "subresources": [
            {"subresource": "status", "responseKind": response_kind, "verbs": ["get", "patch", "update"]},
        ],
    })
}
