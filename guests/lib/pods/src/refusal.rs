//! Remembers that pods of an object can't be created because its namespace is being deleted.
//!
//! Controllers of pods may not read namespaces, so they learn of the deletion from the first refused creation. Further
//! creations would be refused too, each time that one of the object's pods goes.
//!
//! In Kubernetes, the expectation of a refused pod has the same effect: it is not lowered, and no pod is created until it
//! expires.
//!
//! Upstream: pkg/controller/controller_utils.go: SatisfiedExpectations, isExpired.

use std::time::Duration;

use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::{ApiError, Host};

/// How long no creation is tried again: `ExpectationsTimeout`.
const EXPIRY: Duration = Duration::from_secs(5 * 60);

/// Whether creating a pod of the object with this UID was refused lately because its namespace is being deleted.
pub fn is_expected(host: &Host, uid: &str) -> bool {
    host.memo().get::<bool>(&key(uid)).is_some()
}

/// Remembers a refusal among the results of creating pods of the object with this UID.
pub fn remember<T>(host: &Host, uid: &str, results: &[Result<T, ApiError>]) {
    let mut errors = results.iter().filter_map(|result| result.as_ref().err());
    if errors.any(is_namespace_terminating) {
        // Without the entry, the next reconcile tries one creation.
        let _ = host.memo().put(&key(uid), &true, uid, EXPIRY);
    }
}

fn key(uid: &str) -> String {
    format!("refused-pods/{uid}")
}

#[cfg(test)]
mod tests {
    use flyball_sdk::testing::{Cluster, refusal};

    use super::*;

    #[test]
    fn only_a_namespace_that_is_being_deleted_is_remembered_and_only_for_a_time() {
        let cluster = Cluster::new();
        let host = cluster.host();
        let refused = |reason| [Ok(()), Err(refusal(403, reason))];
        remember(&host, "uid-1", &refused("Forbidden"));
        assert!(!is_expected(&host, "uid-1"));
        remember(&host, "uid-1", &refused("NamespaceTerminating"));
        assert!(is_expected(&host, "uid-1") && !is_expected(&host, "uid-2"));
        cluster.advance(EXPIRY);
        assert!(!is_expected(&host, "uid-1"));
    }
}
