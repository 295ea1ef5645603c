//! The Job of a scheduled time.
//!
//! Upstream: pkg/controller/cronjob/cronjob_controllerv2.go: getJobName.
//! Upstream: pkg/controller/cronjob/utils.go: getJobFromTemplate2, getTimeHashInMinutes, copyLabels, copyAnnotations.

use flyball_sdk::prelude::*;
use serde::Serialize;

use crate::format::rfc3339;
use crate::views::{CronJob, Job};
use crate::zone::Zones;

/// The annotation with the time for which a Job was created.
pub const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// A Job to create.
#[derive(Serialize)]
struct NewJob<'a> {
    metadata: Meta,
    spec: &'a Raw,
}

/// The name of the Job of a scheduled time. It contains the scheduled time in minutes since 1970. If two controllers
/// create the Job of the same time, only one succeeds.
pub fn name(cron_job: &CronJob, time: Time) -> String {
    format!("{}-{}", cron_job.meta.name, time.seconds / 60)
}

/// Returns the write that creates the Job of a scheduled time. It returns the Job's metadata.
pub fn creation(cron_job: &CronJob, time: Time, zones: &Zones) -> Write {
    let zone = cron_job.time_zone.as_deref().unwrap_or_default();
    // The plan has found the zone.
    let zone = zones.load(zone).unwrap_or_default();
    let mut annotations = cron_job.job_annotations.clone();
    annotations.insert(SCHEDULED_AT.into(), rfc3339(time, &zone));
    let metadata = Meta {
        name: name(cron_job, time),
        labels: cron_job.job_labels.clone(),
        annotations,
        owner_references: vec![cron_job.meta.controller_reference(CronJob::KIND)],
        ..Meta::default()
    };
    let job = NewJob {
        metadata,
        spec: &cron_job.job_spec,
    };
    Write::create(Job::KIND, &cron_job.meta.namespace, &job).returning(&["metadata"])
}
