//! The limits on finished Jobs.
//!
//! Upstream: pkg/controller/cronjob/cronjob_controllerv2.go: cleanupFinishedJobs, getFinishedStatus, removeOldestJobs.

use crate::views::{CronJob, Job};

/// Returns the finished Jobs that exceed the limits, the oldest first: the successful ones, then the failed ones.
pub fn surplus<'a>(cron_job: &CronJob, jobs: &'a [Job]) -> Vec<&'a Job> {
    let successful = jobs.iter().filter(|job| job.is_complete()).collect();
    let failed = jobs.iter().filter(|job| job.is_failed()).collect();
    let mut surplus = oldest(successful, cron_job.successful_jobs_history_limit);
    surplus.extend(oldest(failed, cron_job.failed_jobs_history_limit));
    surplus
}

/// Returns the Jobs beyond `limit`, by start time and name. Jobs that never started count as the newest.
fn oldest(mut jobs: Vec<&Job>, limit: Option<i32>) -> Vec<&Job> {
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
    jobs.sort_by_key(|job| (job.start_time.is_none(), job.start_time, &job.meta.name));
    jobs.truncate(jobs.len().saturating_sub(limit));
    jobs
}
