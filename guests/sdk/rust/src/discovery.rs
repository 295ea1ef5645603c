//! Discovery of the kinds that the API server serves, for controllers that don't know their kinds
//! in advance.

pub use flyball_types::{Catalogue, DiscoveryFailure, ServedKind, Subresource};

use crate::error::Error;
use crate::host::Host;

impl Host<'_> {
    /// The kinds that the API server serves, at most one second old. Needs the import `discovery`.
    ///
    /// # Errors
    /// Discovery failed completely.
    pub fn kinds(&self) -> Result<Catalogue, Error> {
        Ok(self.imports().discovery_kinds()?)
    }
}

#[cfg(test)]
mod tests {
    use flyball_types::ApiError;

    use super::Catalogue;
    use crate::testing::Cluster;

    #[test]
    fn discovery_returns_served_kinds_and_failures() {
        let cluster = Cluster::new();
        cluster.serve(
            "apps/v1/Deployment",
            "deployments",
            true,
            &["delete", "list"],
        );
        cluster.serve("v1/Node", "nodes", false, &["list"]);
        cluster.fail_discovery("metrics.k8s.io/v1beta1", "no answer");
        let found = cluster.host().kinds().unwrap();
        let (deployment, node) = (&found.kinds[0], &found.kinds[1]);
        assert_eq!(
            (deployment.group_version(), deployment.plural.as_str()),
            ("apps/v1", "deployments")
        );
        assert!(deployment.namespaced);
        assert!(deployment.has_verb("delete") && !deployment.has_verb("watch"));
        assert_eq!(
            (node.group_version(), node.namespaced, node.preferred),
            ("v1", false, true)
        );
        assert!(found.knows("v1") && !found.knows("metrics.k8s.io/v1beta1"));
        assert_eq!(found.failures[0].message, "no answer");
    }

    #[test]
    fn discovery_can_fail_completely() {
        let cluster = Cluster::new();
        cluster.fail("discover", "", ApiError::unreachable("no route"));
        assert_eq!(
            cluster.host().kinds().unwrap_err().api().unwrap().reason,
            "Unreachable"
        );
        assert_eq!(cluster.host().kinds().unwrap(), Catalogue::default());
    }
}
