//! The controller's description: its watches, queues, permissions and settings.
//!
//! Upstream: pkg/controller/job/job_controller.go: NewController, newControllerWithClock, addPod, updatePod, deletePod,
//! addJob, updateJob, deleteJob, enqueueSyncJobBatched.

use flyball_sdk::describe::{self, Queue, queue};
use flyball_sdk::prelude::*;

use crate::pods::FINALIZER;
use crate::settings::{KEYS, Settings};
use crate::views::{BY_FINALIZER, BY_PHASE, HeldPod, Job, Pod, Presence};
use crate::{gang, metrics, orphans};

/// The primary queue.
pub const QUEUE: &str = "job";

/// The feature gate of changes of a suspended job's pod template.
pub const MUTABLE_SCHEDULING: &str = "MutableSchedulingDirectivesForSuspendedJobs";

/// Returns the description.
///
/// The permissions are the subset of the ClusterRole that the controller uses. `update` on `finalizers` is for the
/// OwnerReferencesPermissionEnforcement admission plugin, which guards `blockOwnerDeletion`. The API server serves the
/// kinds for gangs only with their feature gate.
pub fn describe(settings: &Settings, gangs: Option<gang::Version>) -> Description {
    let description = describe::describe("job-controller", env!("CARGO_PKG_VERSION"))
        .watch(jobs(gangs))
        .watch(other_changes_of_jobs(settings))
        .watch(pods(settings))
        .watch(held_pods())
        .index(BY_FINALIZER, Pod::KIND, "metadata.finalizers")
        .index(BY_PHASE, Pod::KIND, "status.phase")
        .queue_with(retrying(QUEUE))
        .queue_with(retrying(orphans::QUEUE))
        .permission(Pod::KIND, ["create", "delete", "patch"])
        .permission(Job::KIND, ["get"])
        .permission_on(Job::KIND, "status", ["update"])
        .permission_on(Job::KIND, "finalizers", ["update"])
        .concurrency(5)
        .feature_gate(MUTABLE_SCHEDULING, true)
        .feature_gate(gang::GATE, false)
        .emulated_version()
        .event_source("job-controller");
    let described = KEYS
        .iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        });
    let described = metrics::declare(described);
    match gangs {
        Some(version) => gang::describe(described, version),
        None => described,
    }
}

/// A new job, a deleted one and a new spec are reconciled at once. The metadata is cached whole,
/// because a write of the status carries it.
fn jobs(gangs: Option<gang::Version>) -> Watch {
    let jobs = watch::<Job>()
        .and_view::<Presence>()
        .fields(&["metadata"])
        .when(Change::Generation)
        .enqueue(Mapping::itself())
        .enqueue(Mapping::route());
    match gangs {
        Some(version) => gang::with_fields(jobs, version),
        None => jobs,
    }
}

/// Other changes of a job, such as of its status, are batched with the changes of its pods, which
/// usually cause them.
fn other_changes_of_jobs(settings: &Settings) -> Watch {
    watch::<Job>().enqueue(
        Mapping::itself()
            .on([DeltaType::Modified])
            .after(settings.sync_batch_period),
    )
}

/// Pods of jobs, and orphans that a job may adopt. The deletion of an orphan affects no job.
fn pods(settings: &Settings) -> Watch {
    watch::<Pod>()
        .and_view::<HeldPod>()
        .enqueue(Mapping::controller(Job::KIND).after(settings.sync_batch_period))
        .enqueue(
            Mapping::selecting(Job::KIND, "spec.selector")
                .orphans()
                .on([DeltaType::Added, DeltaType::Modified])
                .after(settings.sync_batch_period),
        )
}

/// Pods with the job-tracking finalizer that are orphans, are being deleted or have ended. Ended
/// pods keep the finalizer until they are counted.
fn held_pods() -> Watch {
    let held = || Mapping::route().having("metadata.finalizers", FINALIZER);
    watch::<HeldPod>()
        .when_at(&[
            "metadata.deletionTimestamp",
            "metadata.finalizers",
            "metadata.ownerReferences",
            "status.phase",
        ])
        .enqueue(held().orphans())
        .enqueue(held().deleting())
        .enqueue(held().having("status.phase", "Succeeded"))
        .enqueue(held().having("status.phase", "Failed"))
}

/// A queue with the per-key backoff of job-controller: 1 s to 60 s, without an overall rate limit.
fn retrying(name: &str) -> Queue {
    Queue {
        base_delay_ms: 1_000,
        max_delay_ms: 60_000,
        qps: 0.0,
        burst: 0,
        ..queue(name)
    }
}
