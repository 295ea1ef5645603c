//! The metrics of claims.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: needsAdminAccess, getAdminAccessMetricLabel,
//! newCustomCollector, CollectWithStability.
//! Upstream: pkg/controller/resourceclaim/metrics/metrics.go.

use flyball_sdk::prelude::*;
use serde::de::IgnoredAny;

use crate::views::DeviceRequest;

/// The counter of creations: `status`, `admin_access`.
pub(crate) const CREATED: &str = "resourceclaim_controller_creates_total";
/// The gauge of claims: `allocated`, `admin_access`, `source`.
pub(crate) const CLAIMS: &str = "resourceclaim_controller_resource_claims";
/// The values of the label `source`.
const SOURCES: [&str; 3] = ["", "resource_claim_template", "extended_resource"];

/// The fields by which claims are counted.
#[derive(View, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceClaim")]
pub(crate) struct Counted {
    #[view(path = "metadata.annotations['resource.kubernetes.io/extended-resource-claim']")]
    extended: String,
    #[view(path = "metadata.annotations['resource.kubernetes.io/pod-claim-name']")]
    claim_name: String,
    #[view(path = "spec.devices.requests", fields("[*].exactly.adminAccess"))]
    requests: Vec<DeviceRequest>,
    #[view(path = "status.allocation")]
    allocation: Option<IgnoredAny>,
}

impl Counted {
    fn source(&self) -> &'static str {
        let [other, template, extended] = SOURCES;
        match (self.extended.as_str(), self.claim_name.as_str()) {
            ("true", _) => extended,
            (_, "") => other,
            _ => template,
        }
    }

    fn needs_admin_access(&self) -> bool {
        self.requests.iter().any(DeviceRequest::needs_admin_access)
    }
}

/// Counts a creation.
pub(crate) fn count_creation(host: &Host, succeeded: bool, needs_admin_access: bool) {
    let status = if succeeded { "success" } else { "failure" };
    host.metrics()
        .add(CREATED, &[status, text(needs_admin_access)], 1.0);
}

/// Sets the gauge of claims.
pub(crate) fn count(host: &Host) -> Result<(), Error> {
    let mut counts = Vec::new();
    for allocated in [false, true] {
        for needs_admin_access in [false, true] {
            counts.extend(SOURCES.map(|source| ((allocated, needs_admin_access, source), 0_u32)));
        }
    }
    host.list::<Counted>().each(|claim| {
        let labels = (
            claim.allocation.is_some(),
            claim.needs_admin_access(),
            claim.source(),
        );
        if let Some((_, count)) = counts.iter_mut().find(|(of, _)| *of == labels) {
            *count += 1;
        }
        Ok(())
    })?;
    for ((allocated, needs_admin_access, source), count) in counts {
        let labels = [text(allocated), text(needs_admin_access), source];
        host.metrics().set(CLAIMS, &labels, count.into());
    }
    Ok(())
}

fn text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
