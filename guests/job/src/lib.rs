//! job-controller: runs pods until enough of them succeed.
//!
//! `reconcile` names the steps, and the decision of each step is a pure function:
//!
//! 1. [`claim`] lists the job's pods, adopts orphans and releases pods that no longer match.
//! 2. [`tally`] and [`indexes`] count them.
//! 3. [`verdict`] decides whether the job ends, with [`failure_policy`] and [`success_policy`]. If
//!    it does, its active pods are deleted.
//! 4. Otherwise [`plan`] chooses the pods to create or delete, with [`rank`] and [`backoff`];
//!    [`act`] writes them, with [`template`].
//! 5. [`account`] and [`track`] count the pods that have ended in the status, each exactly once.
//!
//! There are no expectations: the host's cache shows this plugin all of its own writes that the API
//! server acknowledged. The only state between two calls is the memo's record of recent pod
//! failures ([`backoff`]).

pub mod account;
pub mod act;
pub mod backoff;
pub mod claim;
pub mod describe;
pub mod failure_policy;
pub mod indexes;
pub mod intervals;
pub mod metrics;
pub mod orphans;
pub mod plan;
pub mod pods;
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
use flyball_sdk::{Delta, controller::RoutedKey, debug};

use act::Done;
use backoff::Record;
use indexes::Indexes;
use settings::Settings;
use tally::Tally;
use verdict::{Verdict, stamped};
use views::{Job, Status};

pub struct JobController;

export!(JobController);

impl Controller for JobController {
    fn describe() -> Description {
        describe::describe(&Settings::default())
    }

    fn describe_configured(host: &Host) -> Description {
        // `reconcile` reports invalid settings.
        describe::describe(&Settings::read(host).unwrap_or_default())
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.queue == orphans::QUEUE {
            return orphans::reconcile(host, &request.key);
        }
        let Some(job) = host.get_key::<Job>(&request.key)? else {
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
    let mut action = "reconciling";
    let result = sync(host, job, &mut action);
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

/// Creates or deletes pods as the job requires and writes its status. Sets `action` to the metrics'
/// label for what was done to pods.
fn sync(host: &Host, mut job: Job, action: &mut &'static str) -> Result<Outcome, Error> {
    let settings = Settings::read(host)?;
    let pods = claim::claim(host, &job)?;
    let now = host.now();
    let written = job.status.clone();
    if !job.suspend {
        job.status.start_time.get_or_insert(now.to_second());
    }

    let tally = Tally::of(&job, &pods);
    let indexes = job.is_indexed().then(|| Indexes::of(&job, &pods));
    let recalled: Record = host.memo().get(&job.meta.uid).unwrap_or_default();
    let record = recalled.after(&tally.new_succeeded, &tally.new_failed);

    let mut status = job.status.clone();
    let mut verdict = verdict::judge(&job, &pods, &tally, indexes.as_ref(), now);
    let done;
    if verdict.is_some() {
        done = act::delete(host, &job, &tally.active);
        // The verdict is written only when all active pods are deleted: a remaining pod could still
        // change the counters.
        verdict = verdict.filter(|_| done.removed == tally.active.len());
    } else {
        let (tally, indexes, record, settings) = (&tally, indexes.as_ref(), &record, &settings);
        let known = plan::Known {
            pods: &pods,
            tally,
            indexes,
            record,
            settings,
            now,
        };
        done = match job.meta.is_deleting() {
            true => Done::default(),
            false => {
                let step = plan::step(&job, &known);
                *action = step.action();
                act::take(host, &job, tally, indexes, step)
            }
        };
        let active = tally.active.len() + done.created - done.removed;
        if verdict::is_complete(&job, plan::succeeded(tally, indexes), active) {
            verdict = Some(Verdict::completed());
        } else if !job.meta.is_deleting() {
            update_suspended(host, &job, &mut status, now);
        }
    }

    count(&mut status, &tally, &done);
    // A deadline that has passed while the verdict can't be written yet needs no requeue: the
    // failed deletion is retried anyway.
    let deadline =
        verdict::until_deadline(&job, now).filter(|left| verdict.is_none() && !left.is_zero());
    let requeue_after = [done.requeue_after, deadline].into_iter().flatten().min();
    let (indexes, verdict) = (indexes.as_ref(), verdict.as_ref());
    let known = account::Known {
        job: &job,
        pods: &pods,
        indexes,
        verdict,
        settings: &settings,
        now,
    };
    // With a backoff limit per index, the annotations of each index's last failed pod determine its
    // backoff.
    let record = Some(&record)
        .filter(|record| **record != recalled && job.backoff_limit_per_index.is_none());
    let tracked =
        track::track(host, &known, status, written, record).doing(|| "tracking status".into());
    let result = tracked.and(done.failure.map_or(Ok(()), Err));
    outcome(host, &job, result, requeue_after)
}

/// Sets the numbers of active, ready and terminating pods after this reconcile's writes.
fn count(status: &mut Status, tally: &Tally, done: &Done) {
    status.active = (tally.active.len() + done.created - done.removed) as i32;
    status.ready = Some((tally.ready() - done.removed_ready) as i32);
    status.terminating = Some((tally.terminating + done.removed) as i32);
}

/// The outcome of a reconcile that is due again after `requeue_after`. A failed key is retried
/// after the queue's backoff, which can be longer; so the earlier time is enqueued separately.
fn outcome(
    host: &Host,
    job: &Job,
    result: Result<(), Error>,
    requeue_after: Option<Duration>,
) -> Result<Outcome, Error> {
    match (result, requeue_after) {
        (Ok(()), requeue_after) => Ok(requeue_after.map_or(Outcome::Done, Outcome::RequeueAfter)),
        (Err(error), None) => Err(error),
        (Err(error), Some(delay)) => {
            host.queue()
                .add_after(describe::QUEUE, &job.meta.key(), delay)?;
            Err(error)
        }
    }
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
        status.start_time = (!job.suspend).then_some(now.to_second());
    }
}
