//! Resources, and the kinds that the API server serves them as.

use flyball_sdk::discovery::{Catalogue, DiscoveryFailure, ServedKind};
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// A resource in any version: `widgets` of `example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct GroupResource {
    /// Empty for the core group.
    pub(crate) group: String,
    /// The plural name.
    pub(crate) resource: String,
}

impl GroupResource {
    /// Returns the key of the resource, such as `widgets:example.com`. Names of objects have no colons.
    pub(crate) fn key(&self) -> Key {
        Key::new("", &format!("{}:{}", self.resource, self.group))
    }

    /// Parses the name of a key. `None` if it is the name of an object.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (resource, group) = name.split_once(':')?;
        Some(Self {
            group: group.into(),
            resource: resource.into(),
        })
    }

    /// Finds the resource in discovery, in the version that the server prefers; `None` if it serves none.
    ///
    /// # Errors
    /// Discovery failed, for the resource's group at least.
    pub(crate) fn served(&self, host: &Host) -> Result<Option<Served>, Error> {
        let Catalogue { kinds, failures } = host.kinds()?;
        let of_resource = |kind: &&ServedKind| {
            let (group, _) = split(kind);
            kind.plural == self.resource && group == self.group
        };
        let mut found = kinds.iter().filter(of_resource);
        let first = found.clone().next();
        let preferred = found.find(|kind| kind.preferred);
        let served = preferred.or(first).cloned().map(Served);
        let is_of_group = |failure: &&DiscoveryFailure| {
            let (group, _) = parts(&failure.group_version);
            group == self.group
        };
        match failures
            .iter()
            .find(is_of_group)
            .filter(|_| served.is_none())
        {
            Some(failure) => {
                let DiscoveryFailure {
                    group_version,
                    message,
                } = failure;
                Err(Error::failed(format!(
                    "discovering {group_version}: {message}"
                )))
            }
            None => Ok(served),
        }
    }
}

/// Returns the group and the version of a kind.
fn split(kind: &ServedKind) -> (&str, &str) {
    parts(kind.group_version())
}

fn parts(group_version: &str) -> (&str, &str) {
    group_version.split_once('/').unwrap_or(("", group_version))
}

/// A resource in one version.
pub(crate) struct Served(pub(crate) ServedKind);

impl Served {
    /// Whether the resource has the verbs that a migration needs.
    pub(crate) fn is_migratable(&self) -> bool {
        ["update", "patch", "list"]
            .iter()
            .all(|verb| self.0.has_verb(verb))
    }

    /// The `apiVersion` and the `kind` of the objects.
    pub(crate) fn type_of_objects(&self) -> (&str, &str) {
        let kind = self.0.kind.rsplit('/').next().unwrap_or_default();
        (self.0.group_version(), kind)
    }

    /// Names the resource as Go prints it: `apps/v1, Resource=deployments`.
    pub(crate) fn shown(&self) -> String {
        let (group, version) = split(&self.0);
        format!("{group}/{version}, Resource={}", self.0.plural)
    }
}
