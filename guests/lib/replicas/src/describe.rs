//! The controller's description: its watches, queue and permissions.
//!
//! Upstream: pkg/controller/replicaset/replica_set.go: NewBaseController, updateRS, addPod, updatePod, deletePod.

use flyball_sdk::describe::{self, MetricType};
use flyball_sdk::prelude::*;

use crate::flavor::{Flavored, Of};
use crate::views::{Candidate, Pod, RelatedPod, Set};

/// The feature gate of the annotation that orders the deletion of pods.
pub(crate) const POD_DELETION_COST: &str = "PodDeletionCost";
/// The feature gate of `terminatingReplicas`.
pub(crate) const TERMINATING_REPLICAS: &str = "DeploymentReplicaSetTerminatingReplicas";

/// Returns the description of the controller of this kind.
///
/// The permissions are the subset of the ClusterRole that the controller uses. `update` on
/// `finalizers` is for the OwnerReferencesPermissionEnforcement admission plugin, which guards
/// `blockOwnerDeletion`.
pub fn describe<F: Flavored>() -> Description {
    let flavor = F::FLAVOR;
    let description = describe::describe(flavor.name, env!("CARGO_PKG_VERSION"))
        .watch(sets::<F>())
        .watch(pods::<F>())
        .queue(flavor.queue)
        .permission("v1/Pod", ["create", "delete", "patch"])
        .permission(flavor.kind, ["get"])
        .permission_on(flavor.kind, "status", ["update"])
        .permission_on(flavor.kind, "finalizers", ["update"])
        .concurrency(5)
        .event_source(flavor.event_source)
        .feature_gate(POD_DELETION_COST, true);
    let description = match flavor.counts_terminating {
        true => description.feature_gate(TERMINATING_REPLICAS, true),
        false => description,
    };
    let Some(age_ratio) = flavor.age_ratio else {
        return description;
    };
    description.metric(
        MetricType::Histogram(vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0]),
        age_ratio,
        &[],
        "The ratio of the age of each ready pod that was chosen for deletion to the age of the youngest ready pod. \
         Should be below 2.",
    )
}

/// The sets. Changes of the status are included so that another client's changes of it are
/// corrected. The whole object is cached, because the host builds the object of an update from its
/// cache.
fn sets<F: Flavored>() -> Watch {
    watch::<Of<F, Set>>()
        .fields(&["."])
        .when(Change::Generation)
        .when_at(&["metadata.deletionTimestamp", "status"])
        .enqueue(Mapping::itself())
}

/// The pods of the sets, and orphans that a set may adopt. The deletion of an orphan affects no
/// set.
fn pods<F: Flavored>() -> Watch {
    let kind = F::FLAVOR.kind;
    watch::<Pod>()
        .and_view::<Candidate>()
        .and_view::<RelatedPod>()
        .when(Change::Labels)
        .when_at(&[
            "metadata.ownerReferences",
            "metadata.deletionTimestamp",
            "status.phase",
            "status.conditions[type=Ready]",
        ])
        .enqueue(Mapping::controller(kind))
        .enqueue(
            Mapping::selecting(kind, "spec.selector")
                .orphans()
                .on([DeltaType::Added, DeltaType::Modified]),
        )
}
