//! The controller's description: its watches, queue, permissions and settings.
//!
//! Upstream: pkg/controller/statefulset/stateful_set.go: NewStatefulSetController, addPod, updatePod, deletePod,
//! getStatefulSetsForPod.

use flyball_revisions::ControllerRevision;
use flyball_sdk::describe;
use flyball_sdk::prelude::*;

use crate::history::SEMANTIC_COMPARISON;
use crate::metrics;
use crate::recreate::RECREATE;
use crate::views::{Claim, Pod, StatefulSet};

/// The gate by which a rolling update may make several pods unavailable.
pub const MAX_UNAVAILABLE: &str = "MaxUnavailableStatefulSet";
/// The setting for how many pods are processed at once.
pub const MAX_BATCH_SIZE: &str = "max-batch-size";
/// The default of the batch size.
pub const DEFAULT_BATCH_SIZE: usize = 500;

/// Returns the description.
///
/// The permissions are the subset of the ClusterRole that the controller uses. `update` on
/// `finalizers` is for the OwnerReferencesPermissionEnforcement admission plugin, which guards
/// `blockOwnerDeletion`.
pub fn describe() -> Description {
    let description = describe::describe("statefulset-controller", env!("CARGO_PKG_VERSION"))
        .watch(sets())
        .watch(pods())
        .watch(claims())
        .watch(describe::watch::<ControllerRevision>())
        .queue("statefulset")
        .permission(StatefulSet::KIND, ["get"])
        .permission_on(StatefulSet::KIND, "status", ["update"])
        .permission_on(StatefulSet::KIND, "finalizers", ["update"])
        .permission(Pod::KIND, ["create", "delete", "get", "patch", "update"])
        .permission_on(Pod::KIND, "finalizers", ["update"])
        .permission(Claim::KIND, ["create", "get", "update"])
        .permission(
            ControllerRevision::KIND,
            ["create", "delete", "get", "patch", "update"],
        )
        .concurrency(5)
        .event_source("statefulset-controller")
        .feature_gate(MAX_UNAVAILABLE, true)
        .feature_gate(RECREATE, false)
        .feature_gate(SEMANTIC_COMPARISON, true)
        .emulated_version()
        .config(
            MAX_BATCH_SIZE,
            Some("500"),
            "maximum number of pods of a StatefulSet with the policy Parallel that are processed at once",
        );
    metrics::declare(description)
}

/// The sets. Changes of the status are included so that another client's changes of it are
/// corrected. The metadata is cached whole, because a write of the status carries it.
fn sets() -> Watch {
    watch::<StatefulSet>()
        .fields(&["metadata"])
        .when(Change::Generation)
        .when_at(&["metadata.deletionTimestamp", "status"])
        .enqueue(Mapping::itself())
}

/// The pods of the sets, and orphans that a set may adopt. The deletion of an orphan affects no set.
fn pods() -> Watch {
    watch::<Pod>()
        .when(Change::Labels)
        .when_at(&[
            "metadata.ownerReferences",
            "metadata.deletionTimestamp",
            "status.phase",
            "status.conditions[type=Ready]",
        ])
        .enqueue(Mapping::controller(StatefulSet::KIND))
        .enqueue(
            Mapping::selecting(StatefulSet::KIND, "spec.selector")
                .orphans()
                .on([DeltaType::Added, DeltaType::Modified]),
        )
}

/// The claims of the pods. A pod may wait for the deletion of a claim. Claims have the labels that
/// the set selects by.
fn claims() -> Watch {
    watch::<Claim>()
        .enqueue(Mapping::selecting(StatefulSet::KIND, "spec.selector").on([DeltaType::Deleted]))
}
