//! Writes the status and removes finalizers, in the order of the steps of
//! [`account`](crate::account).
//!
//! Upstream: pkg/controller/job/job_controller.go: trackJobStatusAndRemoveFinalizers,
//! flushUncountedAndRemoveFinalizers, removeTrackingFinalizerFromPods, updateJobStatus.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::warning;
use serde::Deserialize;

use crate::account;
use crate::metrics;
use crate::observed::Observed;
use crate::ownership;
use crate::pods::has_finalizer;
use crate::verdict::Verdict;
use crate::views::{Job, Pod, Status};

/// Counts the pods that have ended and writes the status; finishes the job if its verdict allows.
/// `status` is the status to be written, and `stored` the one that the API server has. New pod
/// failures are recorded in the memo once the status with them is written.
///
/// # Errors
/// A write failed. Earlier writes persist; the next reconcile continues from there.
pub fn track(
    host: &Host,
    observed: &Observed,
    verdict: Option<&Verdict>,
    status: Status,
    stored: Status,
) -> Result<(), Error> {
    let job = observed.job;
    let account = account::account(observed, verdict, status);
    let mut writer = Writer {
        host,
        job,
        meta: job.meta.clone(),
        stored,
    };
    writer
        .write(&account.status)
        .doing(|| "adding uncounted pods to status".into())?;
    if let Some(record) = observed.new_record()
        && let Err(error) = host
            .memo()
            .put(&job.meta.uid, record, &job.meta.uid, Duration::ZERO)
    {
        warning!(
            host,
            "the backoff of {} was not stored: {error}",
            job.meta.key()
        );
    }
    account
        .policy_actions
        .iter()
        .for_each(|action| host.metrics().add(metrics::POLICY_ACTIONS, &[*action], 1.0));

    let mut status = account.status;
    let (freed, failure) = free(host, &account.free);
    let held: Vec<&Pod> = observed
        .pods
        .iter()
        .filter(|pod| has_finalizer(&pod.meta.finalizers))
        .collect();
    let mut held = account::uids(&held);
    for pod in freed {
        held.remove(pod.meta.uid.as_str());
    }
    account::settle(&mut status, &held);

    let verdict = verdict.filter(|_| failure.is_none() && !account.is_full);
    let ended = verdict.filter(|verdict| account::finish(&mut status, verdict, observed.now));
    writer
        .write(&status)
        .doing(|| "removing uncounted pods from status".into())?;
    if let Some(verdict) = ended {
        report_end(host, job, &status, verdict);
    }
    failure.map_or(Ok(()), Err)
}

/// Removes the finalizer from pods. Returns the pods that no longer have it or are deleted, and the
/// first error.
fn free<'p>(host: &Host, pods: &[&'p Pod]) -> (Vec<&'p Pod>, Option<Error>) {
    let removals = pods
        .iter()
        .map(|&pod| (pod, ownership::remove_finalizer(&pod.meta)));
    let (mut freed, mut failure) = (Vec::new(), None);
    for (pod, result) in host.tagged_batch().extend(removals).run() {
        match result.found() {
            Ok(_) => freed.push(pod),
            Err(error) => failure = failure.or(Some(error.into())),
        }
    }
    (freed, failure)
}

/// Emits the events and metrics of a finished job.
fn report_end(host: &Host, job: &Job, status: &Status, verdict: &Verdict) {
    let about = job.meta.reference(Job::KIND);
    if verdict.is_success {
        if job
            .completions
            .is_some_and(|completions| status.succeeded > completions)
        {
            let message = "Too many succeeded pods running after completion count reached";
            host.emit(Event::warning(&about, "TooManySucceededPods", message));
        }
        host.emit(Event::normal(&about, "Completed", "Job completed"));
    } else {
        host.emit(Event::warning(&about, &verdict.reason, &verdict.message));
    }
    metrics::count_finished(host, job, verdict);
}

/// Writes the job's status, several times in a reconcile.
struct Writer<'a> {
    host: &'a Host<'a>,
    job: &'a Job,
    /// With the `resourceVersion` of the last write.
    meta: Meta,
    /// The status that the API server has.
    stored: Status,
}

impl Writer<'_> {
    /// Writes the status if it differs from the last one written.
    fn write(&mut self, status: &Status) -> Result<(), Error> {
        if *status == self.stored {
            return Ok(());
        }
        #[derive(Deserialize)]
        struct Written {
            metadata: Meta,
        }
        let write = Write::update_status(Job::KIND, &self.meta, status);
        let answer = self
            .host
            .write(write.returning(&["metadata.resourceVersion"]))?;
        self.meta.resource_version = answer.parse::<Written>()?.metadata.resource_version;
        metrics::count_pods(self.host, self.job, &self.stored, status);
        self.stored = status.clone();
        Ok(())
    }
}
