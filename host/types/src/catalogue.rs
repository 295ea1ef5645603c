//! The kinds that an API server serves.

/// The result of discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// In the server's order: within a group, the preferred version first.
    pub kinds: Vec<ServedKind>,
    /// The group versions whose discovery failed. Their kinds in `kinds` may be out of date.
    pub failures: Vec<DiscoveryFailure>,
}

/// A kind in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedKind {
    /// For example `apps/v1/Deployment`.
    pub kind: String,
    /// The name in paths, such as `deployments`.
    pub plural: String,
    pub namespaced: bool,
    /// True if this is the version of the kind that the server prefers.
    pub preferred: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
}

/// A subresource of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subresource {
    /// For example `status`.
    pub name: String,
    pub verbs: Vec<String>,
}

/// A group version whose discovery failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryFailure {
    /// For example `metrics.k8s.io/v1beta1`.
    pub group_version: String,
    /// The reason, as text for people.
    pub message: String,
}

impl Catalogue {
    /// True unless the discovery of this group version failed.
    pub fn knows(&self, group_version: &str) -> bool {
        self.failures
            .iter()
            .all(|failure| failure.group_version != group_version)
    }
}

impl ServedKind {
    /// Returns the `apiVersion`, such as `apps/v1`, or `v1` for the core group.
    pub fn group_version(&self) -> &str {
        self.kind
            .rsplit_once('/')
            .map_or("", |(group_version, _)| group_version)
    }

    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }
}
