//! The controller's description: its watches, queues, permissions and settings.
//!
//! Upstream: pkg/controller/disruption/disruption.go: NewDisruptionControllerInternal, addDB, updateDB, removeDB,
//! addPod, updatePod, deletePod.

use flyball_sdk::describe;
use flyball_sdk::prelude::*;

use crate::settings::KEYS;
use crate::views::{
    Budget, Deployment, DisruptedPod, LabelledPod, Pod, ReplicaSet, ReplicationController, Rival,
    StatefulSet,
};

/// The primary queue, of budgets.
pub const QUEUE: &str = "disruption";
/// The queue of budgets whose evicted pods are due.
pub const RECHECK: &str = "disruption_recheck";
/// The queue of pods whose condition announces a disruption.
pub const STALE_PODS: &str = "stale_pod_disruption";

/// Returns the description.
///
/// The permissions are the subset of the ClusterRole that the controller uses. A change of a controller's replicas
/// enqueues nothing: the changes of its pods follow.
pub fn describe() -> Description {
    let description = describe::describe("disruption-controller", env!("CARGO_PKG_VERSION"))
        .watch(budgets())
        .watch(pods())
        .watch(describe::watch::<Deployment>())
        .watch(describe::watch::<ReplicaSet>())
        .watch(describe::watch::<ReplicationController>())
        .watch(describe::watch::<StatefulSet>())
        .queue(QUEUE)
        .queue(RECHECK)
        .queue(STALE_PODS)
        .import("discovery")
        .import("raw")
        .permission(Budget::KIND, ["get"])
        .permission_on(Budget::KIND, "status", ["update"])
        .permission_on(Pod::KIND, "status", ["patch"])
        .permission_on("*", "scale", ["get"])
        .concurrency(1)
        .event_source("controllermanager");
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}

/// The status is among the changes, because the API server counts evictions in it. The metadata is cached whole,
/// because a write of the status carries it.
fn budgets() -> Watch {
    watch::<Budget>()
        .and_view::<Rival>()
        .fields(&["metadata"])
        .when(Change::Generation)
        .when_at(&["status"])
        .enqueue(Mapping::itself().on([DeltaType::Added, DeltaType::Modified]))
}

/// A changed label affects the budgets that selected the pod before, and the budgets that select it now. A changed
/// phase affects no number, but it retries a budget whose status could not be computed when the pod was created.
fn pods() -> Watch {
    watch::<Pod>()
        .and_view::<LabelledPod>()
        .and_view::<DisruptedPod>()
        .when(Change::Labels)
        .when_at(&[
            "metadata.deletionTimestamp",
            "metadata.ownerReferences",
            "status.phase",
            "status.conditions[type=Ready].status",
            "status.conditions[type=DisruptionTarget]",
        ])
        .enqueue(Mapping::selecting(Budget::KIND, "spec.selector"))
        .enqueue(
            Mapping::itself()
                .on([DeltaType::Added, DeltaType::Modified])
                .having("status.conditions[type=DisruptionTarget].status", "True")
                .queue(STALE_PODS),
        )
}
