//! Creates and deletes Jobs, and records that in the status.
//!
//! Upstream: pkg/controller/cronjob/cronjob_controllerv2.go: syncCronJob, deleteJob.
//! Upstream: pkg/controller/cronjob/injection.go: CreateJob, DeleteJob, GetJob.

use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::meta::CoreObjectReference;
use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::describe::CREATION_SKEW;
use crate::note::Note;
use crate::template;
use crate::views::{CronJob, Job, Status};
use crate::zone::Zones;

/// Deletes finished Jobs with their pods. A failure is only reported: the next reconcile tries again.
pub fn delete_all(host: &Host, cron_job: &CronJob, status: &mut Status, jobs: &[&Job]) {
    let deletions = jobs.iter().map(|job| (job, deletion(job)));
    for (job, result) in host.tagged_batch().extend(deletions).run() {
        record_deletion(host, cron_job, status, job, result.map(drop));
    }
}

/// Deletes the active Jobs, for the concurrency policy `Replace`.
///
/// # Errors
/// A Job can't be read or deleted.
pub fn delete_active(host: &Host, cron_job: &CronJob, status: &mut Status) -> Result<(), Error> {
    for CoreObjectReference {
        namespace, name, ..
    } in status.active.clone()
    {
        let found = host.live().get::<Job>(&namespace, &name);
        let found =
            found.and_then(|job| job.ok_or_else(|| Error::failed(missing(&namespace, &name))));
        let job = found.inspect_err(|error| {
            let message = format!("Get job: {}", error.message());
            Note::warning("FailedGet", message).emit(host, &cron_job.meta);
        })?;
        let result = host.write(deletion(&job)).map(drop);
        if !record_deletion(host, cron_job, status, &job, result) {
            return Err(Error::failed(format!(
                "could not replace job {namespace}/{name}"
            )));
        }
    }
    Ok(())
}

/// Why there is no Job of this name, in the words of Kubernetes' client or of the API server. The status may hold any
/// text as a name.
fn missing(namespace: &str, name: &str) -> String {
    let namespace_faults = segment_faults(namespace);
    let name_faults = segment_faults(name);
    if !namespace_faults.is_empty() {
        return format!("invalid namespace {namespace:?}: [{namespace_faults}]");
    }
    if name.is_empty() {
        return "resource name may not be empty".into();
    }
    if !name_faults.is_empty() {
        return format!("invalid resource name {name:?}: [{name_faults}]");
    }
    if namespace.is_empty() {
        // The client then asks for a path that the API server does not serve.
        return "the server could not find the requested resource".into();
    }
    format!("jobs.batch {name:?} not found")
}

/// Why a text can't be a segment of a path: apimachinery's IsValidPathSegmentName.
fn segment_faults(text: &str) -> String {
    if matches!(text, "." | "..") {
        return format!("may not be '{text}'");
    }
    let faults = ["/", "%"].into_iter().filter(|one| text.contains(one));
    let faults: Vec<String> = faults
        .map(|one| format!("may not contain '{one}'"))
        .collect();
    faults.join(" ")
}

fn deletion(job: &Job) -> Write {
    Write::delete_exactly(Job::KIND, &job.meta).propagation(Propagation::Background)
}

/// Reports the result of a deletion. A deleted Job is no longer active. Returns whether the Job was deleted.
fn record_deletion(
    host: &Host,
    cron_job: &CronJob,
    status: &mut Status,
    job: &Job,
    result: Result<(), ApiError>,
) -> bool {
    let note = match &result {
        Ok(()) => {
            status.remove(&job.meta.uid);
            Note::normal("SuccessfulDelete", format!("Deleted job {}", job.meta.name))
        }
        Err(error) => Note::warning("FailedDelete", format!("Deleted job: {}", error.message)),
    };
    note.emit(host, &cron_job.meta);
    result.is_ok()
}

/// Creates the Job of a scheduled time and adds it to the status. If the Job exists and belongs to the CronJob, it was
/// created before, but the status was not written. If it belongs to another owner, or the status
/// has it, nothing is done for that time.
///
/// # Errors
/// The Job can't be created.
pub fn create(
    host: &Host,
    cron_job: &CronJob,
    status: &mut Status,
    time: Time,
    zones: &Zones,
) -> Result<(), Error> {
    let meta = match host.write(template::creation(cron_job, time, zones)) {
        Ok(answer) => {
            let Created { metadata } = answer.parse()?;
            let skew = metadata
                .creation_timestamp
                .map_or(0, |created| created.seconds - time.seconds);
            host.metrics().observe(CREATION_SKEW, &[], skew as f64);
            let message = format!("Created job {}", metadata.name);
            Note::normal("SuccessfulCreate", message).emit(host, &cron_job.meta);
            metadata
        }
        Err(error) if error.is_already_exists() => {
            let name = template::name(cron_job, time);
            let existing = host.live().get::<Job>(&cron_job.meta.namespace, &name)?;
            let Some(Job { meta, .. }) = existing else {
                return Err(error.into());
            };
            if !meta.is_controlled_by(&cron_job.meta.uid) || status.is_active(&meta.uid) {
                return Ok(());
            }
            meta
        }
        Err(error) => {
            if !is_namespace_terminating(&error) {
                let message = format!("Error creating job: {}", error.message);
                Note::warning("FailedCreate", message).emit(host, &cron_job.meta);
            }
            return Err(error.into());
        }
    };
    status
        .active
        .push(CoreObjectReference::to(Job::KIND, &meta));
    status.last_schedule_time = Some(time);
    Ok(())
}

/// The server's response to a creation.
#[derive(Deserialize)]
struct Created {
    metadata: Meta,
}
