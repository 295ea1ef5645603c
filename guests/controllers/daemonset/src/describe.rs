//! The controller's description: its watches, queues, permissions and settings.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: NewDaemonSetsController, updateDaemonset, addHistory,
//! updateHistory, deleteHistory, addPod, updatePod, deletePod, updateNode, shouldIgnoreNodeUpdate.

use flyball_revisions::ControllerRevision;
use flyball_sdk::describe;
use flyball_sdk::prelude::*;

use crate::placement::COMPARISON_OPERATORS;
use crate::settings::KEYS;
use crate::views::{Candidate, DaemonSet, Neighbour, Node, Pod, Presence};

/// The primary queue.
pub const QUEUE: &str = "daemonset";
/// The queue of changed nodes.
pub const NODE_QUEUE: &str = "daemonset-node-updates";
/// The index of pods by the node that they run on.
pub const BY_NODE: &str = "node";

/// Returns the description.
///
/// The permissions are the subset of the ClusterRole that the controller uses. `update` on
/// `finalizers` is for the OwnerReferencesPermissionEnforcement admission plugin, which guards
/// `blockOwnerDeletion`. KCM's metric `stale_sync_skips_total` is missing: no reconcile is skipped,
/// because none sees a stale cache.
pub fn describe() -> Description {
    let description = describe::describe("daemonset-controller", env!("CARGO_PKG_VERSION"))
        .watch(sets())
        .watch(nodes())
        .watch(pods())
        .watch(revisions())
        .index(BY_NODE, Pod::KIND, "spec.nodeName")
        .queue(QUEUE)
        .queue(NODE_QUEUE)
        .permission(
            ControllerRevision::KIND,
            ["get", "create", "delete", "patch", "update"],
        )
        .permission(Pod::KIND, ["create", "delete", "patch"])
        .permission(DaemonSet::KIND, ["get"])
        .permission_on(DaemonSet::KIND, "status", ["update"])
        .permission_on(DaemonSet::KIND, "finalizers", ["update"])
        .feature_gate(COMPARISON_OPERATORS, false)
        .concurrency(2)
        .event_source("daemonset-controller");
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}

/// The DaemonSets. Changes of the status are included so that another client's changes of it are
/// corrected. The metadata is cached whole, because a write of the status carries it.
fn sets() -> Watch {
    watch::<DaemonSet>()
        .and_view::<Presence>()
        .and_view::<Candidate>()
        .fields(&["metadata"])
        .when(Change::Generation)
        .when_at(&["metadata.deletionTimestamp", "status"])
        .enqueue(Mapping::itself())
}

/// The nodes. The deletion of a node enqueues nothing: its pods are deleted next.
fn nodes() -> Watch {
    watch::<Node>()
        .when(Change::Labels)
        .when_at(&["spec.taints"])
        .enqueue(
            Mapping::itself()
                .on([DeltaType::Added, DeltaType::Modified])
                .queue(NODE_QUEUE),
        )
}

/// The pods of DaemonSets, and orphans that one may adopt. The deletion of an orphan affects none. When
/// a node is deleted, the scheduler changes the message of the pods that are meant for it; so they are
/// deleted soon afterwards.
fn pods() -> Watch {
    watch::<Pod>()
        .and_view::<Neighbour>()
        .when(Change::Labels)
        .when_at(&[
            "metadata.ownerReferences",
            "metadata.deletionTimestamp",
            "spec.nodeName",
            "status.phase",
            "status.conditions[type=Ready]",
            "status.conditions[type=PodScheduled].message",
        ])
        .enqueue(Mapping::controller(DaemonSet::KIND))
        .enqueue(
            Mapping::selecting(DaemonSet::KIND, "spec.selector")
                .orphans()
                .on([DeltaType::Added, DeltaType::Modified]),
        )
}

/// The revisions of DaemonSets, and orphans that one may adopt. A DaemonSet knows the revisions that it
/// has created, so that their addition enqueues nothing.
fn revisions() -> Watch {
    watch::<ControllerRevision>()
        .enqueue(Mapping::controller(DaemonSet::KIND).on([DeltaType::Modified, DeltaType::Deleted]))
        .enqueue(
            Mapping::selecting(DaemonSet::KIND, "spec.selector")
                .orphans()
                .on([DeltaType::Added, DeltaType::Modified]),
        )
}
