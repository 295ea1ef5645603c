//! Creates and deletes pods and emits the events about them.
//!
//! Upstream: pkg/controller/job/job_controller.go: manageJob, deleteActivePods, deleteJobPods.
//! Upstream: pkg/controller/controller_utils.go: createPods, DeletePod.

use flyball_pods::{created_name, refusal};
use flyball_sdk::debug;
use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;

use crate::metrics::{self, Replaces};
use crate::observed::Observed;
use crate::ownership;
use crate::plan::Step;
use crate::progress::Progress;
use crate::template;
use crate::views::{Job, Pod};

/// Carries out a step. The result contains the successes, even if other writes failed.
pub fn carry_out(host: &Host, observed: &Observed, step: Step) -> Progress {
    let job = observed.job;
    match step {
        Step::Leave | Step::Stay => Progress::default(),
        Step::Wait(wait) => Progress {
            requeue_after: Some(wait),
            ..Progress::default()
        },
        Step::End(pods) => delete(host, job, &pods),
        Step::Delete(pods) => release_and_delete(host, job, &pods),
        Step::Create(numbers) => create(host, observed, &numbers),
    }
}

/// Deletes pods that the job no longer wants. The finalizer is removed first, so that they are not
/// counted as failures.
fn release_and_delete(host: &Host, job: &Job, pods: &[&Pod]) -> Progress {
    let (held, free): (Vec<&Pod>, Vec<&Pod>) = pods.iter().partition(|pod| pod.has_finalizer());
    let releases = held
        .into_iter()
        .map(|pod| (pod, ownership::remove_finalizer(&pod.meta)));
    let (mut deleted, mut failure, mut to_delete) = (Vec::new(), None, free);
    for (pod, result) in host.tagged_batch().extend(releases).run() {
        match result.found() {
            Ok(Some(_)) => to_delete.push(pod),
            Ok(None) => deleted.push(pod),
            Err(error) => {
                failure = failure.or(Some(Error::Doing(
                    "removing completion finalizer".into(),
                    Box::new(error.into()),
                )))
            }
        }
    }
    let mut progress = delete(host, job, &to_delete);
    progress.removed += deleted.len();
    progress.removed_ready += deleted.iter().filter(|pod| pod.is_ready()).count();
    progress.failure = failure.or(progress.failure);
    progress
}

/// Deletes pods. A pod with the finalizer disappears once it is counted and the finalizer is
/// removed.
fn delete(host: &Host, job: &Job, pods: &[&Pod]) -> Progress {
    let about = job.meta.reference(Job::KIND);
    let deletions = pods
        .iter()
        .map(|pod| (pod, Write::delete_exactly(Pod::KIND, &pod.meta)));
    let mut progress = Progress::default();
    for (pod, result) in host.tagged_batch().extend(deletions).run() {
        match result.found() {
            Ok(result) => {
                if result.is_some() {
                    host.emit(Event::normal(
                        &about,
                        "SuccessfulDelete",
                        &format!("Deleted pod: {}", pod.meta.name),
                    ));
                }
                progress.removed += 1;
                progress.removed_ready += usize::from(pod.is_ready());
            }
            Err(error) => {
                host.emit(Event::warning(
                    &about,
                    "FailedDelete",
                    &format!("Error deleting: {}", error.message),
                ));
                progress.failure.get_or_insert(Error::Doing(
                    "unable to delete pods".into(),
                    Box::new(error.into()),
                ));
            }
        }
    }
    progress
}

/// Creates pods in slow-start rounds of 1, 2, 4 … and stops at the first round with an error. In a
/// namespace that is being deleted, a refusal is not reported as an error, and stops creations for some minutes.
fn create(host: &Host, observed: &Observed, numbers: &[Option<i64>]) -> Progress {
    let Observed { job, tally, .. } = observed;
    if refusal::is_expected(host, &job.meta.uid) {
        return Progress::default();
    }
    debug!(host, "too few pods, creating {}", numbers.len());
    let about = job.meta.reference(Job::KIND);
    let creations = match template::creations(observed, numbers) {
        Ok(creations) => creations,
        Err(failure) => {
            return Progress {
                failure: Some(failure),
                ..Progress::default()
            };
        }
    };
    let mut progress = Progress::default();
    let mut failed = 0;
    let results = host.batch().extend(creations).slow_start(1).run();
    refusal::remember(host, &job.meta.uid, &results);
    for result in results {
        match result {
            Ok(result) => {
                let name = created_name(&result).unwrap_or_default();
                host.emit(Event::normal(
                    &about,
                    "SuccessfulCreate",
                    &format!("Created pod: {name}"),
                ));
                progress.created += 1;
            }
            Err(error) if error.is_skipped() || is_namespace_terminating(&error) => {}
            Err(error) => {
                host.emit(Event::warning(
                    &about,
                    "FailedCreate",
                    &format!("Error creating: {}", error.message),
                ));
                failed += 1;
                progress.failure.get_or_insert(error.into());
            }
        }
    }
    let replaces = Replaces {
        failed: tally.failed > 0,
        terminating: tally.terminating > 0,
    };
    metrics::count_creations(host, job, replaces, progress.created, failed);
    progress
}
