//! Making and deleting pods, with the events that tell of it.

use std::time::Duration;

use flyball_sdk::debug;
use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::pod::created_name;
use flyball_sdk::prelude::*;

use crate::claim;
use crate::indexes::Indexes;
use crate::metrics::{self, Replaces};
use crate::plan::Step;
use crate::tally::Tally;
use crate::template;
use crate::views::{Job, Pod};

/// What was done to pods.
#[derive(Debug, Default)]
pub struct Done {
    /// How many were made.
    pub made: usize,
    /// How many were deleted, or found to be gone.
    pub removed: usize,
    /// How many of those were ready.
    pub removed_ready: usize,
    /// When to look again, though nothing changes.
    pub look_again: Option<Duration>,
    /// The first refusal.
    pub failure: Option<Error>,
}

/// Takes a step.
pub fn take(host: &Host, job: &Job, tally: &Tally, indexes: Option<&Indexes>, step: Step) -> Done {
    match step {
        Step::Stay => Done::default(),
        Step::Wait(wait) => Done {
            look_again: Some(wait),
            ..Done::default()
        },
        Step::Delete(pods) => drop_pods(host, job, &pods),
        Step::Create(numbers) => create(host, job, tally, indexes, &numbers),
    }
}

/// Deletes pods that no longer count: first they are let go, so that they are not counted as
/// failures.
fn drop_pods(host: &Host, job: &Job, pods: &[&Pod]) -> Done {
    let (held, free): (Vec<&Pod>, Vec<&Pod>) = pods.iter().partition(|pod| pod.is_held());
    let answers = host
        .batch()
        .extend(held.iter().map(|pod| claim::freeing(&pod.meta)))
        .run();
    let (mut gone, mut failure, mut doomed) = (Vec::new(), None, free);
    for (pod, answer) in held.into_iter().zip(answers) {
        match answer.found() {
            Ok(Some(_)) => doomed.push(pod),
            Ok(None) => gone.push(pod),
            Err(error) => {
                failure = failure.or(Some(Error::Doing(
                    "removing completion finalizer".into(),
                    Box::new(error.into()),
                )))
            }
        }
    }
    let mut done = delete(host, job, &doomed);
    done.removed += gone.len();
    done.removed_ready += gone.iter().filter(|pod| pod.is_ready()).count();
    done.failure = failure.or(done.failure);
    done
}

/// Deletes pods. Those that are held go when they are counted.
pub fn delete(host: &Host, job: &Job, pods: &[&Pod]) -> Done {
    let about = job.meta.reference(Job::KIND);
    let deletions = pods
        .iter()
        .map(|pod| Write::delete_exactly(Pod::KIND, &pod.meta));
    let answers = host.batch().extend(deletions).run();
    let mut done = Done::default();
    for (pod, answer) in pods.iter().zip(answers) {
        match answer.found() {
            Ok(answer) => {
                if answer.is_some() {
                    host.emit(Event::normal(
                        &about,
                        "SuccessfulDelete",
                        &format!("Deleted pod: {}", pod.meta.name),
                    ));
                }
                done.removed += 1;
                done.removed_ready += usize::from(pod.is_ready());
            }
            Err(error) => {
                host.emit(Event::warning(
                    &about,
                    "FailedDelete",
                    &format!("Error deleting: {}", error.message),
                ));
                done.failure.get_or_insert(Error::Doing(
                    "unable to delete pods".into(),
                    Box::new(error.into()),
                ));
            }
        }
    }
    done
}

/// Makes pods: one, then two, then four …, until one is refused, because the rest would be, too. In
/// a namespace that is being deleted none can be made, and none is missed.
fn create(
    host: &Host,
    job: &Job,
    tally: &Tally,
    indexes: Option<&Indexes>,
    numbers: &[Option<i64>],
) -> Done {
    debug!(host, "too few pods: making {}", numbers.len());
    let about = job.meta.reference(Job::KIND);
    let creations = match template::creations(job, numbers, indexes) {
        Ok(creations) => creations,
        Err(failure) => {
            return Done {
                failure: Some(failure),
                ..Done::default()
            };
        }
    };
    let mut done = Done::default();
    let mut refused = 0;
    for answer in host.batch().extend(creations).slow_start(1).run() {
        match answer {
            Ok(answer) => {
                let name = created_name(&answer).unwrap_or_default();
                host.emit(Event::normal(
                    &about,
                    "SuccessfulCreate",
                    &format!("Created pod: {name}"),
                ));
                done.made += 1;
            }
            Err(error) if error.is_skipped() || is_namespace_terminating(&error) => {}
            Err(error) => {
                host.emit(Event::warning(
                    &about,
                    "FailedCreate",
                    &format!("Error creating: {}", error.message),
                ));
                refused += 1;
                done.failure.get_or_insert(error.into());
            }
        }
    }
    let replaces = Replaces {
        failed: tally.failed > 0,
        terminating: tally.terminating > 0,
    };
    metrics::count_creations(host, job, replaces, done.made, refused);
    done
}
