//! The fields that the controller reads of CronJobs and Jobs, and the status that it writes.

use std::time::Duration;

use flyball_sdk::StringMap;
use flyball_sdk::meta::{CoreObjectReference, null_is_default};
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(View, Clone, Debug, Default)]
#[view(kind = "batch/v1/CronJob")]
pub struct CronJob {
    #[view(path = "metadata", fields("creationTimestamp", "deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "spec.schedule")]
    pub schedule: String,
    #[view(path = "spec.timeZone")]
    pub time_zone: Option<String>,
    /// How late a Job may be created; without a limit if absent.
    #[view(path = "spec.startingDeadlineSeconds")]
    pub starting_deadline_seconds: Option<u64>,
    /// `Allow` (the default), `Forbid` or `Replace`.
    #[view(path = "spec.concurrencyPolicy")]
    pub concurrency_policy: String,
    #[view(path = "spec.suspend")]
    pub suspend: bool,
    /// The number of successful Jobs to keep; all if absent.
    #[view(path = "spec.successfulJobsHistoryLimit")]
    pub successful_jobs_history_limit: Option<i32>,
    /// The number of failed Jobs to keep; all if absent.
    #[view(path = "spec.failedJobsHistoryLimit")]
    pub failed_jobs_history_limit: Option<i32>,
    #[view(path = "spec.jobTemplate.metadata.labels")]
    pub job_labels: StringMap,
    #[view(path = "spec.jobTemplate.metadata.annotations")]
    pub job_annotations: StringMap,
    /// Copied into Jobs as it is.
    #[view(path = "spec.jobTemplate.spec")]
    pub job_spec: Raw,
    /// The last status that was written.
    #[view(path = "status")]
    pub status: Status,
}

/// A CronJob, with the fields that tell when it is due next.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "batch/v1/CronJob")]
pub struct Timing {
    #[view(path = "metadata", fields("creationTimestamp", "generation"))]
    pub meta: Meta,
    #[view(path = "spec.schedule")]
    pub schedule: String,
    #[view(path = "spec.timeZone")]
    pub time_zone: Option<String>,
    #[view(path = "status.lastScheduleTime")]
    pub last_schedule_time: Option<Time>,
}

/// The status of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The running Jobs.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub active: Vec<CoreObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "batch/v1/Job")]
pub struct Job {
    #[view(path = "metadata", fields("ownerReferences"))]
    pub meta: Meta,
    /// `True` if it succeeded.
    #[view(path = "status.conditions[type=Complete].status")]
    pub complete: String,
    /// `True` if it failed.
    #[view(path = "status.conditions[type=Failed].status")]
    pub failed: String,
    #[view(path = "status.startTime")]
    pub start_time: Option<Time>,
    #[view(path = "status.completionTime")]
    pub completion_time: Option<Time>,
}

impl CronJob {
    /// The time after which its schedule counts.
    pub fn anchor(&self) -> Time {
        anchor(&self.meta, self.status.last_schedule_time)
    }

    /// How late a Job may be created. It is capped at 136 years.
    pub fn starting_deadline(&self) -> Option<Duration> {
        let seconds = self.starting_deadline_seconds?;
        Some(Duration::from_secs(seconds.min(u32::MAX.into())))
    }
}

impl Timing {
    /// The time after which its schedule counts.
    pub fn anchor(&self) -> Time {
        anchor(&self.meta, self.last_schedule_time)
    }
}

fn anchor(meta: &Meta, last_schedule_time: Option<Time>) -> Time {
    last_schedule_time
        .or(meta.creation_timestamp)
        .unwrap_or_default()
}

impl Status {
    /// Whether a Job with this UID is active.
    pub fn is_active(&self, uid: &str) -> bool {
        self.active.iter().any(|job| job.uid == uid)
    }

    /// Removes the Job with this UID from the active ones.
    pub fn remove(&mut self, uid: &str) {
        self.active.retain(|job| job.uid != uid);
    }
}

impl Job {
    pub fn is_complete(&self) -> bool {
        self.complete == "True"
    }

    pub fn is_failed(&self) -> bool {
        self.failed == "True"
    }

    pub fn is_finished(&self) -> bool {
        self.is_complete() || self.is_failed()
    }
}
