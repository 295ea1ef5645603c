//! Writing the status, and letting go the pods that it counts: the steps of
//! [`account`](crate::account), in their order.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::warning;
use serde::Deserialize;

use crate::account::{self, Known};
use crate::backoff::Record;
use crate::claim;
use crate::metrics;
use crate::pods::is_held;
use crate::verdict::Verdict;
use crate::views::{Job, Pod, Status};

/// Counts the pods that have ended and writes the status, which says that the job has ended, if it
/// has. `record` is remembered once the failures in it are written down, if there are new ones.
///
/// # Errors
/// A write failed. What was written stands; the next reconcile goes on from there.
pub fn track(
    host: &Host,
    known: &Known,
    status: Status,
    written: Status,
    record: Option<&Record>,
) -> Result<(), Error> {
    let Known { job, verdict, .. } = known;
    let account = account::account(known, status);
    let mut writer = Writer {
        host,
        job,
        meta: job.meta.clone(),
        written,
    };
    writer
        .write(&account.status)
        .doing(|| "adding uncounted pods to status".into())?;
    if let Some(record) = record
        && let Err(error) = host
            .memo()
            .put(&job.meta.uid, record, &job.meta.uid, Duration::ZERO)
    {
        warning!(
            host,
            "failures of the pods of {} are forgotten: {error}",
            job.meta.key()
        );
    }
    account
        .policy_actions
        .iter()
        .for_each(|action| host.metrics().add(metrics::POLICY_ACTIONS, &[*action], 1.0));

    let mut status = account.status;
    let (freed, failure) = free(host, &account.free);
    let held: Vec<&Pod> = known
        .pods
        .iter()
        .filter(|pod| is_held(&pod.meta.finalizers))
        .collect();
    let mut held = account::held(&held);
    for pod in freed {
        held.remove(pod.meta.uid.as_str());
    }
    account::settle(&mut status, &held);

    let verdict = verdict.filter(|_| failure.is_none() && !account.is_full);
    let ended = verdict.filter(|verdict| account::finish(&mut status, verdict, known.now));
    writer
        .write(&status)
        .doing(|| "removing uncounted pods from status".into())?;
    if let Some(verdict) = ended {
        tell_end(host, job, &status, verdict);
    }
    failure.map_or(Ok(()), Err)
}

/// Takes the finalizer off pods. Answers those that have lost it or are gone, and the first
/// refusal.
fn free<'p>(host: &Host, pods: &[&'p Pod]) -> (Vec<&'p Pod>, Option<Error>) {
    let answers = host
        .batch()
        .extend(pods.iter().map(|pod| claim::freeing(&pod.meta)))
        .run();
    let (mut freed, mut failure) = (Vec::new(), None);
    for (pod, answer) in pods.iter().zip(answers) {
        match answer.found() {
            Ok(_) => freed.push(*pod),
            Err(error) => failure = failure.or(Some(error.into())),
        }
    }
    (freed, failure)
}

/// Tells how a job has ended.
fn tell_end(host: &Host, job: &Job, status: &Status, verdict: &Verdict) {
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

/// Writes the status of a job, more than once.
struct Writer<'a> {
    host: &'a Host<'a>,
    job: &'a Job,
    /// In the version of the last write.
    meta: Meta,
    /// What stands.
    written: Status,
}

impl Writer<'_> {
    /// Writes the status, unless it stands already.
    fn write(&mut self, status: &Status) -> Result<(), Error> {
        if *status == self.written {
            return Ok(());
        }
        #[derive(Deserialize)]
        struct Answered {
            metadata: Meta,
        }
        let write = Write::update_status(Job::KIND, &self.meta, status);
        let answer = self
            .host
            .write(write.returning(&["metadata.resourceVersion"]))?;
        self.meta.resource_version = answer.parse::<Answered>()?.metadata.resource_version;
        metrics::count_pods(self.host, self.job, &self.written, status);
        self.written = status.clone();
        Ok(())
    }
}
