//! The controller's description: its watches, indexes, permissions and metrics.
//!
//! Upstream: pkg/controller/resourceclaim/controller.go: NewController, podResourceClaimTemplateIndexFunc,
//! podResourceClaimIndexFunc, podGroupMemberIndexFunc, podGroupResourceClaimTemplateIndexFunc,
//! podGroupResourceClaimIndexFunc, claimPodOwnerIndexFunc, claimPodGroupOwnerIndexFunc.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::gates::{ADMIN_ACCESS, Gates, POD_GROUPS, PRIORITIZED_LIST, WORKLOADS};
use crate::key::METRICS;
use crate::metrics::{self, Counted};
use crate::views::{Claim, Pod, PodGroup, Template};

/// The index of pods and of PodGroups by the claims that their specs name.
pub(crate) const NAMED: &str = "claim";
/// The index of pods and of PodGroups by the claims that were created for them.
pub(crate) const GENERATED: &str = "generated-claim";
/// The index of pods and of PodGroups by the templates of their claims.
pub(crate) const TEMPLATE: &str = "template";
/// The index of pods by their PodGroup.
pub(crate) const MEMBERS: &str = "group";
/// The indexes that pods and PodGroups have in common.
const INDEXES: [(&str, &str); 3] = [
    (NAMED, "spec.resourceClaims[*].resourceClaimName"),
    (
        GENERATED,
        "status.resourceClaimStatuses[*].resourceClaimName",
    ),
    (TEMPLATE, "spec.resourceClaims[*].resourceClaimTemplateName"),
];

/// A pod with claims has at least one of these fields.
const HAVING_CLAIMS: [&str; 2] = [
    "spec.resourceClaims[*].name",
    "status.extendedResourceClaimStatus.resourceClaimName",
];
/// How long changes of claims are collected before the claims are counted. It is shorter than usual scrape intervals.
const COUNTED_AFTER: Duration = Duration::from_secs(5);

pub(crate) fn description(gates: Gates) -> Description {
    let claims = watch::<Claim>()
        .and_view::<Counted>()
        .enqueue(Mapping::route())
        .enqueue(Mapping::key(METRICS).after(COUNTED_AFTER));
    let templates =
        watch::<Template>().enqueue(Mapping::route().on([DeltaType::Added, DeltaType::Modified]));
    let described = describe("resourceclaim-controller", env!("CARGO_PKG_VERSION"))
        .watch(claims)
        .watch(pods())
        .watch(templates)
        .queue("resource_claim")
        .event_source("resource_claim")
        .concurrency(50);
    let described = metrics::declare(permissions(indexes(described, Pod::KIND)), gates)
        .feature_gate(ADMIN_ACCESS, true)
        .feature_gate(PRIORITIZED_LIST, true)
        .feature_gate(POD_GROUPS, false)
        .feature_gate(WORKLOADS, false)
        .emulated_version();
    match gates {
        gates if gates.pod_groups => pod_groups(described),
        gates if gates.reads_groups() => described.watch(watch::<PodGroup>()),
        _ => described,
    }
}

fn pods() -> Watch {
    watch::<Pod>()
        .when_at(&[
            "metadata.uid",
            "metadata.deletionTimestamp",
            "spec.nodeName",
            "status.phase",
            "status.resourceClaimStatuses",
            "status.extendedResourceClaimStatus.resourceClaimName",
        ])
        .enqueue(Mapping::route().having_any(&HAVING_CLAIMS))
}

/// Adds the indexes of a kind that has claims.
fn indexes(described: Description, kind: &str) -> Description {
    INDEXES.iter().fold(described, |described, (name, path)| {
        described.index(name, kind, path)
    })
}

fn permissions(described: Description) -> Description {
    described
        .permission(Claim::KIND, ["create", "delete", "get", "update"])
        .permission_on(Claim::KIND, "status", ["update"])
        // The API server requires this permission for changes of `status.reservedFor` and `status.allocation`.
        .permission_on(Claim::KIND, "binding", ["update"])
        .permission(Pod::KIND, ["get"])
        .permission_on(Pod::KIND, "status", ["patch"])
        // The admission plugin OwnerReferencesPermissionEnforcement requires this permission.
        .permission_on(Pod::KIND, "finalizers", ["update"])
}

/// Adds the watches and permissions for the claims of PodGroups. The API server serves PodGroups only behind a feature
/// gate of its own.
fn pod_groups(described: Description) -> Description {
    let described = described
        .watch(watch::<PodGroup>().enqueue(Mapping::route()))
        .index(MEMBERS, Pod::KIND, "spec.schedulingGroup.podGroupName")
        .permission(PodGroup::KIND, ["get"])
        .permission_on(PodGroup::KIND, "status", ["patch"]);
    indexes(described, PodGroup::KIND)
}
