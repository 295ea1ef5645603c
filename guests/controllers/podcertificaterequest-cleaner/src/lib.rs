//! podcertificaterequest-cleaner-controller: deletes PodCertificateRequests once they are 15 minutes old.
//!
//! A kubelet that requests a certificate for a pod (KEP-4317) is done with the request much earlier.
//!
//! Upstream: pkg/controller/certificates/cleaner/pcrcleaner.go: NewPCRCleanerController, worker, handle.

use std::time::Duration;

use flyball_sdk::prelude::*;

/// The only key.
const KEY: &str = "all";
/// How often the requests are checked.
const INTERVAL: Duration = Duration::from_secs(5 * 60);
/// How old a request may be.
const AGE: Duration = Duration::from_secs(15 * 60);

#[derive(View, Clone, Debug, Default)]
#[view(kind = "certificates.k8s.io/v1beta1/PodCertificateRequest")]
struct PodRequest {
    #[view(path = "metadata", fields("creationTimestamp", "deletionTimestamp"))]
    meta: Meta,
}

impl PodRequest {
    /// Whether the request is to be deleted. A request without a creation time is.
    fn is_old(&self, now: Time) -> bool {
        let created = self.meta.creation_timestamp;
        !self.meta.is_deleting() && created.is_none_or(|created| now >= created + AGE)
    }
}

/// The controller.
pub struct Cleaner;

export!(Cleaner);

impl Controller for Cleaner {
    fn describe() -> Description {
        describe(
            "podcertificaterequest-cleaner-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(watch::<PodRequest>())
        .queue("podcertificaterequest_cleaner")
        .ticker(KEY, INTERVAL)
        .permission(PodRequest::KIND, ["delete"])
        .concurrency(1)
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        let now = host.now();
        let mut old = Vec::new();
        host.list::<PodRequest>().each(|request| {
            if request.is_old(now) {
                old.push(request.meta);
            }
            Ok(())
        })?;
        host.delete_all(PodRequest::KIND, &old)?;
        Ok(Outcome::Done)
    }
}
