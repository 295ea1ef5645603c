//! job-controller: runs pods until enough of them succeed.
//!
//! [`JobController`] reads like its description: `reconcile` names the steps, and what each decides
//! is a pure function. The job's own pods are found ([`claim`]) and counted ([`tally`],
//! [`indexes`]); a verdict is reached, if one can be ([`verdict`], with [`failure_policy`] and
//! [`success_policy`]), and all pods are deleted, or the next step is taken ([`plan`], with
//! [`rank`], [`backoff`] and [`template`]); in the end those that have ended are counted in the
//! status, each exactly once ([`account`], [`track`]).
//!
//! There are no expectations: the host's cache shows this plugin all of its own writes that the API
//! server acknowledged. The one thing that is remembered between two calls is how often pods have
//! failed of late.

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

/// The controller of Jobs.
pub struct JobController;

export!(JobController);

impl Controller for JobController {
    fn describe() -> Description {
        describe::describe(&Settings::default())
    }

    fn describe_configured(host: &Host) -> Description {
        // A setting that makes no sense is reported by every reconcile.
        describe::describe(&Settings::read(host).unwrap_or_default())
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.queue == orphans::QUEUE {
            return orphans::reconcile(host, &request.key);
        }
        let Some(job) = host.get_key::<Job>(&request.key)? else {
            // It is gone. Its pods are the garbage collector's.
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

/// Reconciles a job that has not ended, and counts that.
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

/// Brings the pods of a job to what it asks for, and its status to what they are. `action` is told
/// what was done to pods.
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
        // Nothing is said before all are gone: one that is left could still change the counters.
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
        let active = tally.active.len() + done.made - done.removed;
        if verdict::is_complete(&job, plan::succeeded(tally, indexes), active) {
            verdict = Some(Verdict::completed());
        } else if !job.meta.is_deleting() {
            note_suspension(host, &job, &mut status, now);
        }
    }

    count(&mut status, &tally, &done);
    // One that has passed while its verdict can't be said yet is no reason to look again: what
    // failed is.
    let deadline =
        verdict::until_deadline(&job, now).filter(|left| verdict.is_none() && !left.is_zero());
    let look_again = [done.look_again, deadline].into_iter().flatten().min();
    let (indexes, verdict) = (indexes.as_ref(), verdict.as_ref());
    let known = account::Known {
        job: &job,
        pods: &pods,
        indexes,
        verdict,
        settings: &settings,
        now,
    };
    // Where indexes are told apart, each waits by what its last pod says.
    let record = Some(&record)
        .filter(|record| **record != recalled && job.backoff_limit_per_index.is_none());
    let tracked =
        track::track(host, &known, status, written, record).doing(|| "tracking status".into());
    let result = tracked.and(done.failure.map_or(Ok(()), Err));
    outcome(host, &job, result, look_again)
}

/// Says how many pods there are, after what was done to them.
fn count(status: &mut Status, tally: &Tally, done: &Done) {
    status.active = (tally.active.len() + done.made - done.removed) as i32;
    status.ready = Some((tally.ready() - done.removed_ready) as i32);
    status.terminating = Some((tally.terminating + done.removed) as i32);
}

/// How a reconcile ends that is due again later. An error has a backoff of its own, which can be
/// longer.
fn outcome(
    host: &Host,
    job: &Job,
    result: Result<(), Error>,
    look_again: Option<Duration>,
) -> Result<Outcome, Error> {
    match (result, look_again) {
        (Ok(()), look_again) => Ok(look_again.map_or(Outcome::Done, Outcome::RequeueAfter)),
        (Err(error), None) => Err(error),
        (Err(error), Some(delay)) => {
            host.queue()
                .add_after(describe::QUEUE, &job.meta.key(), delay)?;
            Err(error)
        }
    }
}

/// Says whether a job is suspended. Its time starts anew when it is resumed: only that in which it
/// is active counts.
fn note_suspension(host: &Host, job: &Job, status: &mut Status, now: Time) {
    let about = job.meta.reference(Job::KIND);
    let (said, reason, message) = match job.suspend {
        true => ("True", "Suspended", "Job suspended"),
        false => ("False", "Resumed", "Job resumed"),
    };
    let condition = stamped("Suspended", said, &format!("Job{reason}"), message, now);
    if verdict::set_condition(&mut status.conditions, condition) {
        host.emit(Event::normal(&about, reason, message));
        status.start_time = (!job.suspend).then_some(now.to_second());
    }
}
