//! The controller's description: its watches, queue, permissions, settings and metric.
//!
//! Upstream: pkg/controller/cronjob/cronjob_controllerv2.go: NewControllerV2, addJob, updateJob, deleteJob.
//! Upstream: pkg/controller/cronjob/metrics/metrics.go.

use flyball_sdk::describe::{self, MetricType};
use flyball_sdk::prelude::*;

use crate::settings::KEYS;
use crate::views::{CronJob, Job, Timing};

/// The index of Jobs by the names of their owners. Only Kubernetes before 1.37 needs it.
pub const BY_OWNER: &str = "owner-name";

/// The histogram of the seconds between the scheduled time of a Job and its creation.
pub const CREATION_SKEW: &str = "cronjob_controller_job_creation_skew_duration_seconds";

/// Returns the description.
///
/// The permissions are the subset of the ClusterRole that the controller uses. `update` on
/// `finalizers` is for the OwnerReferencesPermissionEnforcement admission plugin, which guards
/// `blockOwnerDeletion`.
pub fn describe() -> Description {
    let description = describe::describe("cronjob-controller", env!("CARGO_PKG_VERSION"))
        .watch(cron_jobs())
        .watch(changes_of_cron_jobs())
        .watch(watch::<Job>().enqueue(Mapping::controller(CronJob::KIND)))
        .index(BY_OWNER, Job::KIND, "metadata.ownerReferences[*].name")
        .queue("cronjob")
        .permission(CronJob::KIND, ["get"])
        .permission_on(CronJob::KIND, "status", ["update"])
        .permission_on(CronJob::KIND, "finalizers", ["update"])
        .permission(Job::KIND, ["get", "create", "delete"])
        .metric(
            MetricType::Histogram((0..10).map(|power| f64::from(1 << power)).collect()),
            CREATION_SKEW,
            &[],
            "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
        )
        .concurrency(5)
        .event_source("cronjob-controller")
        .emulated_version();
    KEYS.iter()
        .fold(description, |description, (key, default, help)| {
            description.config(key, Some(default), help)
        })
}

/// The metadata is cached whole, because a write of the status carries it.
fn cron_jobs() -> Watch {
    watch::<CronJob>()
        .fields(&["metadata"])
        .enqueue(Mapping::itself().on([DeltaType::Added]))
}

/// A changed CronJob is reconciled at once, unless its schedule has changed: then the next time of the new schedule
/// counts, and not one that has passed since the last Job. No declared mapping tells the two apart.
fn changes_of_cron_jobs() -> Watch {
    watch::<Timing>().enqueue(Mapping::route().on([DeltaType::Modified]))
}
