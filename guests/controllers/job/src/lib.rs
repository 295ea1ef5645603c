//! job-controller: runs pods until enough of them succeed.
//!
//! `reconcile` names the steps, and the decision of each step is a pure function:
//!
//! 1. [`ownership`] lists the job's pods, adopts orphans and releases pods that no longer match.
//! 2. [`gang`] creates the Workload and the PodGroup of pods that are scheduled together.
//! 3. [`tally`] and [`indexes`] count them; [`observed`] holds everything that the decisions depend on.
//! 4. [`verdict`] decides whether the job ends, with [`failure_policy`] and [`success_policy`].
//! 5. [`plan`] chooses the pods to create or delete, with [`rank`] and [`backoff`]: if the job ends,
//!    its active pods are deleted. [`act`] writes them, with [`template`].
//! 6. [`account`] and [`track`] count the pods that have ended in the status, each exactly once.
//!
//! There are no expectations: the host's cache shows this plugin all of its own writes that the API
//! server acknowledged. The only state between two calls is the memo's record of recent pod
//! failures ([`backoff`]).
//!
//! Upstream: pkg/controller/job/job_controller.go: syncJob.

pub mod account;
pub mod act;
pub mod backoff;
pub mod describe;
pub mod failure_policy;
pub mod gang;
pub mod indexes;
pub mod intervals;
pub mod metrics;
pub mod observed;
pub mod orphans;
pub mod ownership;
pub mod plan;
pub mod pods;
pub mod progress;
pub mod rank;
pub mod settings;
pub mod success_policy;
pub mod tally;
pub mod template;
#[cfg(test)]
mod tests;
pub mod track;
pub mod verdict;
pub mod views;

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey, debug};

use backoff::Record;
use observed::Observed;
use progress::Progress;
use settings::Settings;
use verdict::{Verdict, stamped};
use views::{Job, Pod, Status};

pub struct JobController;

export!(JobController);

impl Controller for JobController {
    fn describe() -> Description {
        describe::describe(&Settings::default(), None)
    }

    fn describe_configured(host: &Host) -> Description {
        // `reconcile` reports invalid settings.
        let settings = Settings::read(host).unwrap_or_default();
        describe::describe(&settings, gang::Version::read(host))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.queue == orphans::QUEUE {
            return orphans::reconcile(host, &request.key);
        }
        let Some(job) = host.get_by_key::<Job>(&request.key)? else {
            // The job was deleted. The garbage collector deletes its pods.
            return Ok(Outcome::Done);
        };
        if let Some(other) = job.other_controller() {
            debug!(host, "{} is for {other}", request.key);
            return Ok(Outcome::Done);
        }
        if job.is_finished() {
            host.memo().remove(&job.meta.uid);
            orphans::free_all_of(host, &job)?;
            return Ok(Outcome::Done);
        }
        if !job.has_known_mode() {
            let message = "Skipped Job sync because completion mode is unknown";
            host.emit(Event::warning(
                &job.meta.reference(Job::KIND),
                "UnknownCompletionMode",
                message,
            ));
            return Ok(Outcome::Done);
        }
        measured(host, job)
    }

    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        orphans::route(host, deltas)
    }
}

/// Reconciles a job that has not ended, and records the metrics of that reconcile.
fn measured(host: &Host, job: Job) -> Result<Outcome, Error> {
    let (mode, started) = (job.mode(), host.now());
    let (action, result) = match prepare(host, &job) {
        Ok(prepared) => sync(host, job, &prepared),
        Err(error) => (plan::UNPLANNED, Err(error)),
    };
    let labels = [
        mode,
        if result.is_ok() { "success" } else { "error" },
        action,
    ];
    host.metrics().add(metrics::SYNCS, &labels, 1.0);
    host.metrics().observe(
        metrics::SYNC_DURATION,
        &labels,
        host.now().since(started).as_secs_f64(),
    );
    result
}

/// The inputs of a reconcile.
struct Prepared {
    settings: Settings,
    /// The pods of the job.
    pods: Vec<Pod>,
    /// The PodGroup of the job's next pods.
    group: Option<String>,
}

/// Reads the settings, claims the job's pods, and creates the PodGroup that its next pods will name.
fn prepare(host: &Host, job: &Job) -> Result<Prepared, Error> {
    let settings = Settings::read(host)?;
    let pods = ownership::pods(host, job)?;
    let group = gang::ensure(host, job, &pods)?;
    Ok(Prepared {
        settings,
        pods,
        group,
    })
}

/// Creates or deletes pods as the job requires and writes its status. Returns the label of the metrics for the changes
/// of pods, and the outcome.
fn sync(host: &Host, mut job: Job, prepared: &Prepared) -> (&'static str, Result<Outcome, Error>) {
    let Prepared {
        settings,
        pods,
        group,
    } = prepared;
    let (now, stored) = (host.now(), job.status.clone());
    if !job.suspend {
        job.status.start_time.get_or_insert(now.to_second());
    }
    let recalled: Record = host.memo().get(&job.meta.uid).unwrap_or_default();
    let observed = Observed {
        group: group.as_deref(),
        ..Observed::of(&job, pods, recalled, settings, now)
    };

    let verdict = verdict::judge(&observed);
    let is_ending = verdict.is_some();
    let step = plan::step(&observed, verdict.as_ref());
    let action = step.action();
    let progress = act::carry_out(host, &observed, step);

    let verdict = verdict::after(&observed, verdict, &progress);
    let mut status = counted(&observed, &progress);
    if !is_ending && verdict.is_none() && !job.meta.is_deleting() {
        update_suspended(host, &job, &mut status, now);
    }
    let requeue_after = requeue_after(&observed, verdict.as_ref(), &progress);
    let tracked = track::track(host, &observed, verdict.as_ref(), status, stored)
        .doing(|| "tracking status".into());
    let result = tracked.and(progress.failure.map_or(Ok(()), Err));
    let key = job.meta.key();
    let queue = host.queue();
    (
        action,
        queue.due_after(describe::QUEUE, &key, requeue_after, result),
    )
}

/// Returns the status with the numbers of active, ready and terminating pods after this reconcile's
/// writes.
fn counted(observed: &Observed, progress: &Progress) -> Status {
    let tally = &observed.tally;
    Status {
        active: progress.active_after(tally) as i32,
        ready: Some((tally.ready() - progress.removed_ready) as i32),
        terminating: Some((tally.terminating + progress.removed) as i32),
        ..observed.job.status.clone()
    }
}

/// Returns when the job is due again even if nothing changes. A deadline that has passed while the
/// verdict can't be written yet needs no requeue: the failed deletion is retried anyway.
fn requeue_after(
    observed: &Observed,
    verdict: Option<&Verdict>,
    progress: &Progress,
) -> Option<Duration> {
    let deadline = verdict::until_deadline(observed.job, observed.now)
        .filter(|left| verdict.is_none() && !left.is_zero());
    [progress.requeue_after, deadline]
        .into_iter()
        .flatten()
        .min()
}

/// Updates the `Suspended` condition. Resuming resets the start time: suspended time does not count
/// towards the deadline.
fn update_suspended(host: &Host, job: &Job, status: &mut Status, now: Time) {
    let about = job.meta.reference(Job::KIND);
    let (suspended, reason, message) = match job.suspend {
        true => ("True", "Suspended", "Job suspended"),
        false => ("False", "Resumed", "Job resumed"),
    };
    let condition = stamped(
        "Suspended",
        suspended,
        &format!("Job{reason}"),
        message,
        now,
    );
    if verdict::set_condition(&mut status.conditions, condition) {
        host.emit(Event::normal(&about, reason, message));
        if !job.suspend {
            status.start_time = Some(now.to_second());
        } else if host.feature_enabled(describe::MUTABLE_SCHEDULING) {
            // The API server allows changes of the pod template only without a start time.
            status.start_time = None;
        }
    }
}
