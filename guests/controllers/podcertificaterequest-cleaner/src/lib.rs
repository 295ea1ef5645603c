//! podcertificaterequest-cleaner-controller: deletes PodCertificateRequests once they are as old as the
//! configuration says: 15 minutes by default.
//!
//! A kubelet that requests a certificate for a pod (KEP-4317) is done with the request much earlier.
//!
//! Upstream: pkg/controller/certificates/cleaner/pcrcleaner.go: NewPCRCleanerController, worker, handle.

use std::time::Duration;

use flyball_sdk::describe::Ticker;
use flyball_sdk::prelude::*;

const QUEUE: &str = "podcertificaterequest_cleaner";
/// The only key.
const KEY: &str = "all";
/// The configuration key of how often the requests are checked.
const PERIOD: &str = "period";
/// The configuration key of the age at which a request is deleted.
const THRESHOLD: &str = "threshold";
/// The default of `period`.
const FIVE_MINUTES: Duration = Duration::from_secs(5 * 60);
/// The default of `threshold`.
const QUARTER_HOUR: Duration = Duration::from_secs(15 * 60);

/// The configuration keys with their defaults and descriptions.
const KEYS: &[(&str, &str, &str)] = &[
    (
        PERIOD,
        "5m",
        "how often the PodCertificateRequests are checked",
    ),
    (
        THRESHOLD,
        "15m",
        "age at which a PodCertificateRequest is deleted",
    ),
];

#[derive(View, Clone, Debug, Default)]
#[view(
    kind = "certificates.k8s.io/v1/PodCertificateRequest",
    until(36, "certificates.k8s.io/v1beta1/PodCertificateRequest"),
    until(34, "certificates.k8s.io/v1alpha1/PodCertificateRequest")
)]
struct PodRequest {
    #[view(path = "metadata", fields("creationTimestamp", "deletionTimestamp"))]
    meta: Meta,
}

impl PodRequest {
    /// Whether the request is to be deleted. A request without a creation time is.
    fn is_old(&self, now: Time, threshold: Duration) -> bool {
        let created = self.meta.creation_timestamp;
        !self.meta.is_deleting() && created.is_none_or(|created| now >= created + threshold)
    }
}

/// The controller.
pub struct Cleaner;

export!(Cleaner);

impl Controller for Cleaner {
    fn describe() -> Description {
        let description = describe(
            "podcertificaterequest-cleaner-controller",
            env!("CARGO_PKG_VERSION"),
        )
        .watch(watch::<PodRequest>())
        .queue(QUEUE)
        .ticker_with(Ticker {
            key: KEY.into(),
            queue: QUEUE.into(),
            period_ms: FIVE_MINUTES.as_millis() as u32,
            config: PERIOD.into(),
        })
        .permission(PodRequest::KIND, ["delete"])
        .concurrency(1);
        KEYS.iter()
            .fold(description, |description, (key, default, help)| {
                description.config(key, Some(default), help)
            })
            .emulated_version()
    }

    fn describe_configured(host: &Host) -> Description {
        Self::describe().kind_of_release::<PodRequest>(host)
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        let now = host.now();
        let threshold = host.config_duration(THRESHOLD, QUARTER_HOUR)?;
        let mut old = Vec::new();
        host.list::<PodRequest>().each(|request| {
            if request.is_old(now, threshold) {
                old.push(request.meta);
            }
            Ok(())
        })?;
        host.delete_all(host.kind::<PodRequest>(), &old)?;
        Ok(Outcome::Done)
    }
}
