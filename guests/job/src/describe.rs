//! What the controller is and wants.

use flyball_sdk::describe::{self, Queue, queue};
use flyball_sdk::prelude::*;

use crate::pods::FINALIZER;
use crate::settings::{KEYS, Settings};
use crate::views::{HeldPod, Job, Pod, Presence};
use crate::{metrics, orphans};

/// The primary queue.
pub const QUEUE: &str = "job";

/// The description.
///
/// Its permissions are what it uses of its ClusterRole. `update` on `finalizers` is for the admission that guards
/// `blockOwnerDeletion`.
pub fn describe(settings: &Settings) -> Description {
    let description = describe::describe("job-controller", env!("CARGO_PKG_VERSION"))
        .watch(jobs())
        .watch(jobs_as_they_go(settings))
        .watch(pods(settings))
        .watch(held_pods())
        .queue_with(retrying(QUEUE))
        .queue_with(retrying(orphans::QUEUE))
        .allow(Pod::KIND, ["create", "delete", "patch"])
        .allow(Job::KIND, ["get"])
        .allow_on(Job::KIND, "status", ["update"])
        .allow_on(Job::KIND, "finalizers", ["update"])
        .concurrency(5)
        .event_source("job-controller");
    let described = KEYS
        .iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        });
    metrics::declare(described)
}

/// Jobs that come, go or ask for something else are reconciled at once. Their metadata is kept whole, because a write of the
/// status carries it.
fn jobs() -> describe::Watch {
    watch::<Job>()
        .and_view::<Presence>()
        .fields(&["metadata"])
        .when(Change::Generation)
        .itself()
        .to_route()
}

/// Any other change of a job, such as that of its status, is gathered with the changes of its pods that most often cause it.
fn jobs_as_they_go(settings: &Settings) -> describe::Watch {
    watch::<Job>()
        .itself()
        .on(&[DeltaType::Modified])
        .after(settings.sync_batch_period)
}

/// Pods of jobs, and those that could become so: an orphan's end concerns nobody.
fn pods(settings: &Settings) -> describe::Watch {
    watch::<Pod>()
        .and_view::<HeldPod>()
        .to_controller(Job::KIND)
        .after(settings.sync_batch_period)
        .selecting(Job::KIND, "spec.selector")
        .orphans()
        .on(&[DeltaType::Added, DeltaType::Modified])
        .after(settings.sync_batch_period)
}

/// Pods that may be held by the finalizer for nobody, and those that have ended, which are counted while they are held.
fn held_pods() -> describe::Watch {
    let held = |watch: describe::Watch| watch.to_route().having("metadata.finalizers", FINALIZER);
    let ended = |watch, phase| held(watch).having("status.phase", phase);
    let watch = [
        "metadata.deletionTimestamp",
        "metadata.finalizers",
        "metadata.ownerReferences",
        "status.phase",
    ]
    .iter()
    .fold(watch::<HeldPod>(), |watch, path| {
        watch.when(Change::Path((*path).into()))
    });
    let watch = held(held(watch).orphans()).deleting();
    ended(ended(watch, "Succeeded"), "Failed")
}

/// A queue with the backoff of jobs: a second to a minute, for each key alone.
fn retrying(name: &str) -> Queue {
    Queue {
        base_delay_ms: 1_000,
        max_delay_ms: 60_000,
        qps: 0.0,
        burst: 0,
        ..queue(name)
    }
}
