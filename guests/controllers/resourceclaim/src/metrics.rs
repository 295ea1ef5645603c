//! The metrics of claims.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: needsAdminAccess, getAdminAccessMetricLabel,
//! getClaimCreateMetricLabels, getOwnerKindMetricLabels, newCustomCollector, CollectWithStability.
//! Upstream: pkg/controller/resourceclaim/metrics/metrics.go.
//! Upstream: staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/metrics/metrics.go.

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use serde::de::IgnoredAny;

use crate::gates::Gates;
use crate::views::{DeviceRequest, User};

/// The counter of creations: `status`, `admin_access`, `owner_api_group`, `owner_api_kind`.
const CREATED: &str = "dynamic_resource_allocation_resourceclaim_creates_total";
/// The gauge of claims: `allocated`, `admin_access`, `source`.
const CLAIMS: &str = "dynamic_resource_allocation_resource_claims";
/// The counter of creations before Kubernetes 1.37: `status`, `admin_access`.
const CREATED_1_36: &str = "resourceclaim_controller_creates_total";
/// The gauge of claims before Kubernetes 1.37, with the same labels.
const CLAIMS_1_36: &str = "resourceclaim_controller_resource_claims";
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

/// Declares the metrics.
pub(crate) fn declare(described: Description, gates: Gates) -> Description {
    let described = match gates.since_1_37 {
        true => described.metric(
            MetricType::Counter,
            CREATED,
            &["status", "admin_access", "owner_api_group", "owner_api_kind"],
            "Number of ResourceClaims creation requests, categorized by creation status, admin access, and owning API \
             group and kind (either Pod or scheduling.k8s.io/PodGroup)",
        ),
        false => described.metric(
            MetricType::Counter,
            CREATED_1_36,
            &["status", "admin_access"],
            "Number of ResourceClaims creation requests, categorized by creation status and admin access",
        ),
    };
    described.metric(
        MetricType::Gauge,
        claims(gates),
        &["allocated", "admin_access", "source"],
        "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be \
         'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty \
         (manually created by a user).",
    )
}

fn claims(gates: Gates) -> &'static str {
    match gates.since_1_37 {
        true => CLAIMS,
        false => CLAIMS_1_36,
    }
}

/// Counts a creation.
pub(crate) fn count_creation(
    host: &Host,
    gates: Gates,
    user: &User,
    succeeded: bool,
    needs_admin_access: bool,
) {
    let status = if succeeded { "success" } else { "failure" };
    let labels = [status, text(needs_admin_access)];
    if !gates.since_1_37 {
        return host.metrics().add(CREATED_1_36, &labels, 1.0);
    }
    let OwnerReference {
        api_version, kind, ..
    } = user.meta.owner_reference(user.kind);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let [status, access] = labels;
    host.metrics()
        .add(CREATED, &[status, access, group, &kind], 1.0);
}

/// Sets the gauge of claims.
pub(crate) fn count(host: &Host, gates: Gates) -> Result<(), Error> {
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
        host.metrics().set(claims(gates), &labels, count.into());
    }
    Ok(())
}

fn text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
