//! cronjob-controller: creates Jobs on a schedule.
//!
//! `reconcile` names the steps, and the decision of each step is a pure function:
//!
//! 1. [`history`] chooses the finished Jobs to delete.
//! 2. [`active`] compares the active Jobs of the status with the existing Jobs.
//! 3. [`plan`] decides whether a Job is due, with [`parse`], [`schedule`], [`zone`] and [`due`].
//! 4. [`act`] writes: it deletes Jobs, and creates the Job that is due, with [`template`].
//!
//! [`route`] delays the reconcile of a CronJob whose schedule has changed.
//!
//! Upstream: pkg/controller/cronjob/cronjob_controllerv2.go: sync, getCronJobJobsByIndexer, syncCronJob.

pub mod act;
pub mod active;
pub mod describe;
pub mod due;
pub mod format;
pub mod history;
pub mod note;
pub mod parse;
pub mod plan;
pub mod route;
pub mod schedule;
pub mod settings;
pub mod template;
#[cfg(test)]
mod tests;
pub mod views;
pub mod zone;

use flyball_sdk::RoutedKey;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, debug};

use note::Note;
use plan::Step;
use settings::Settings;
use views::{CronJob, Job, Status};

/// The controller.
pub struct CronJobController;

export!(CronJobController);

impl Controller for CronJobController {
    fn describe() -> Description {
        describe::describe()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let mut settings = Settings::read(host)?;
        let Some(cached) = host.get_by_key::<CronJob>(&request.key)? else {
            // It was deleted. The garbage collector deletes its Jobs.
            return Ok(Outcome::Done);
        };
        let jobs = jobs(host, &cached)?;
        let Some(cron_job) = latest(host, cached, &jobs)? else {
            return Ok(Outcome::Done);
        };
        settings.ask_zones(host, &cron_job.schedule, cron_job.time_zone.as_deref());
        let mut status = cron_job.status.clone();
        let surplus = history::surplus(&cron_job, &jobs);
        act::delete_all(host, &cron_job, &mut status, &surplus);
        let result = sync(host, &cron_job, &jobs, &mut status, &settings);
        // The status also records the steps that succeeded before a failure.
        if status != cron_job.status {
            host.update_status(CronJob::KIND, &cron_job.meta, &status)
                .doing(|| "updating the status".into())?;
        }
        result
    }

    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        route::route(host, deltas)
    }
}

/// Lists the Jobs that the CronJob controls. Before Kubernetes 1.37, its UID did not matter, only its name: a CronJob
/// that was deleted and created again counted the Jobs of its predecessor.
fn jobs(host: &Host, cron_job: &CronJob) -> Result<Vec<Job>, Error> {
    let Meta {
        namespace,
        name,
        uid,
        ..
    } = &cron_job.meta;
    if host.release_at_least(37) {
        let jobs = host.list::<Job>().namespace(namespace);
        return jobs.controller(uid).all();
    }
    let mut jobs = host
        .list::<Job>()
        .namespace(namespace)
        .index(describe::BY_OWNER, name)
        .all()?;
    jobs.retain(|job| {
        let controller = job.meta.controller();
        controller.is_some_and(|owner| owner.is_of(CronJob::KIND) && owner.name == *name)
    });
    Ok(jobs)
}

/// Returns the CronJob from the API server if its status there lists a running Job that the cached status does not
/// list: another process has created that Job. `None` if the CronJob was deleted.
fn latest(host: &Host, cached: CronJob, jobs: &[Job]) -> Result<Option<CronJob>, Error> {
    if active::unlisted(&cached.status, jobs).next().is_none() {
        return Ok(Some(cached));
    }
    let Meta {
        namespace, name, ..
    } = &cached.meta;
    let Some(live) = host.live().get::<CronJob>(namespace, name)? else {
        return Ok(None);
    };
    let is_newer =
        active::unlisted(&cached.status, jobs).any(|job| live.status.is_active(&job.meta.uid));
    Ok(Some(if is_newer { live } else { cached }))
}

/// Brings the status up to date, and creates the Job that is due.
fn sync(
    host: &Host,
    cron_job: &CronJob,
    jobs: &[Job],
    status: &mut Status,
    settings: &Settings,
) -> Result<Outcome, Error> {
    let emit = |note: &Note| note.emit(host, &cron_job.meta);
    active::settle(status, jobs).iter().for_each(emit);
    for missing in active::missing(status, jobs) {
        // The cache may be behind.
        if host
            .live()
            .get::<Job>(&missing.namespace, &missing.name)?
            .is_none()
        {
            status.remove(&missing.uid);
            emit(&Note::normal(
                "MissingJob",
                format!("Active job went missing: {}", missing.name),
            ));
        }
    }
    if cron_job.meta.is_deleting() {
        return Ok(Outcome::Done);
    }
    let plan = plan::plan(cron_job, status, settings, host.now());
    plan.notes.iter().for_each(emit);
    debug!(host, "{}: {:?}", cron_job.meta.key(), plan.step);
    if let Step::Start(time) = plan.step {
        if cron_job.concurrency_policy == "Replace" {
            act::delete_active(host, cron_job, status)?;
        }
        act::create(host, cron_job, status, time, &settings.zones)?;
    }
    Ok(plan.until_next.map_or(Outcome::Done, Outcome::RequeueAfter))
}
