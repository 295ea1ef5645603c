//! The active Jobs and the last success in the status, compared with the Jobs that exist.
//!
//! Upstream: pkg/controller/cronjob/cronjob_controllerv2.go: syncCronJob.
//! Upstream: pkg/controller/cronjob/utils.go: inActiveList, deleteFromActiveList.

use flyball_sdk::meta::CoreObjectReference;

use crate::note::Note;
use crate::views::{Job, Status};

/// Returns the running Jobs that the status does not list. Either the controller has created them and could not write
/// the status, or it has read an old status, or another client has created them.
pub fn unlisted<'a>(status: &'a Status, jobs: &'a [Job]) -> impl Iterator<Item = &'a Job> {
    { jobs.iter() }.filter(|job| !job.is_finished() && !status.is_active(&job.meta.uid))
}

/// Removes finished Jobs from the active ones, and moves the time of the last success forward. It also counts successes
/// of Jobs that were not active.
pub fn settle(status: &mut Status, jobs: &[Job]) -> Vec<Note> {
    let unexpected = |job: &Job| {
        let message = format!(
            "Saw a job that the controller did not create or forgot: {}",
            job.meta.name
        );
        Note::warning("UnexpectedJob", message)
    };
    let mut notes: Vec<Note> = unlisted(status, jobs).map(unexpected).collect();
    for job in jobs.iter().filter(|job| job.is_finished()) {
        if status.is_active(&job.meta.uid) {
            status.remove(&job.meta.uid);
            let condition = if job.is_complete() {
                "Complete"
            } else {
                "Failed"
            };
            let message = format!(
                "Saw completed job: {}, condition: {condition}",
                job.meta.name
            );
            notes.push(Note::normal("SawCompletedJob", message));
        }
        if job.is_complete() {
            status.last_successful_time = status.last_successful_time.max(job.completion_time);
        }
    }
    notes
}

/// Returns the active Jobs that are not among these: either they were deleted, or the cache does not have them yet.
pub fn missing(status: &Status, jobs: &[Job]) -> Vec<CoreObjectReference> {
    let is_missing =
        |active: &&CoreObjectReference| !jobs.iter().any(|job| job.meta.uid == active.uid);
    status.active.iter().filter(is_missing).cloned().collect()
}
