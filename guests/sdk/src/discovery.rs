//! What the API server serves, for controllers that are about kinds which they don't know by name.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::error::Error;
use crate::host::Host;

/// What the API server serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Discovered {
    /// The kinds, in the server's order: within a group the preferred version first.
    pub kinds: Vec<Served>,
    /// The group versions whose discovery failed. What `kinds` has of them, if anything, may be out of date.
    pub failed: Vec<Undiscovered>,
}

/// A kind that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Served {
    /// The kind, as in `apps/v1/Deployment`.
    pub kind: String,
    /// What its paths call it, as in `deployments`.
    pub plural: String,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// The API's verbs that it has.
    pub verbs: BTreeSet<String>,
    /// Its subresources, each with its verbs.
    pub subresources: BTreeMap<String, BTreeSet<String>>,
    /// Whether it is of the group's preferred version.
    pub preferred: bool,
}

/// A group version whose discovery failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Undiscovered {
    /// As in `metrics.k8s.io/v1beta1`.
    pub group_version: String,
    /// What is known of why.
    pub message: String,
}

impl Discovered {
    /// Whether the discovery of this group version succeeded.
    pub fn knows(&self, group_version: &str) -> bool {
        self.failed
            .iter()
            .all(|failed| failed.group_version != group_version)
    }
}

impl Served {
    /// Its group and version, as in `apps/v1`; the core group has no group part.
    pub fn group_version(&self) -> &str {
        self.kind
            .rsplit_once('/')
            .map_or("", |(group_version, _)| group_version)
    }

    /// Whether it has this verb.
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.contains(verb)
    }
}

/// Discovery.
impl Host<'_> {
    /// What the API server serves. Granted by the import `discovery`.
    ///
    /// # Errors
    /// The server was not asked with success.
    pub fn discover(&self) -> Result<Discovered, Error> {
        let kinds = self.imports().kinds()?;
        flyball_types::read(&kinds)
            .map_err(|error| Error::Malformed("what discovery found".into(), error))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Cluster, refusal};

    #[test]
    fn what_is_served_is_discovered_with_what_failed() {
        let cluster = Cluster::new();
        cluster.serve(
            "apps/v1/Deployment",
            "deployments",
            true,
            &["delete", "list"],
        );
        cluster.serve("v1/Node", "nodes", false, &["list"]);
        cluster.fail_discovery("metrics.k8s.io/v1beta1", "no answer");
        let found = cluster.host().discover().unwrap();
        let (deployment, node) = (&found.kinds[0], &found.kinds[1]);
        assert_eq!(
            (deployment.group_version(), deployment.plural.as_str()),
            ("apps/v1", "deployments")
        );
        assert!(deployment.namespaced && deployment.has("delete") && !deployment.has("watch"));
        assert_eq!(
            (node.group_version(), node.namespaced, node.preferred),
            ("v1", false, true)
        );
        assert!(found.knows("v1") && !found.knows("metrics.k8s.io/v1beta1"));
        assert_eq!(found.failed[0].message, "no answer");
    }

    #[test]
    fn discovery_can_fail_altogether() {
        let cluster = Cluster::new();
        cluster.fail("discover", "", refusal(0, "Unreachable"));
        assert_eq!(
            cluster.host().discover().unwrap_err().api().unwrap().reason,
            "Unreachable"
        );
        assert_eq!(cluster.host().discover().unwrap(), Default::default());
    }
}
