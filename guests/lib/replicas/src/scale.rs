//! The number of pods to create or delete, the writes, and the interpretation of their results.
//!
//! Upstream: pkg/controller/replicaset/replica_set.go: manageReplicas.
//! Upstream: pkg/controller/controller_utils.go: createPods, DeletePod, GetPodFromTemplate, getPodsPrefix.

use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::{ApiError, OwnerReference, Write};

use crate::views::{Candidate, Set};

/// Maximum number of pods that one reconcile creates or deletes. Their events cause the next one.
pub const BURST: usize = 500;

/// How to reach the desired number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The number is right.
    Stay,
    /// Create this many pods.
    Create(usize),
    /// Delete this many pods.
    Delete(usize),
}

/// Returns the next step, given the active and the desired number of pods.
pub fn step(active: usize, wanted: usize) -> Step {
    match active.abs_diff(wanted).min(BURST) {
        0 => Step::Stay,
        missing if active < wanted => Step::Create(missing),
        surplus => Step::Delete(surplus),
    }
}

/// The result of a step: events, and the first failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The events to emit.
    pub notes: Vec<Note>,
    pub failure: Option<Failure>,
}

/// An event about the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// The failure of a step, for the set's condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// [`FAILED_CREATE`] or [`FAILED_DELETE`].
    pub reason: &'static str,
    /// The API's message.
    pub message: String,
}

/// The reason of the event and the condition when pods can't be created.
pub const FAILED_CREATE: &str = "FailedCreate";
/// The reason of the event and of the condition when pods can't be deleted.
pub const FAILED_DELETE: &str = "FailedDelete";

/// The write that creates one pod.
///
/// # Errors
/// The template has no labels, so the selector could not match the pod.
pub fn creation(set: &Set, owner: &OwnerReference) -> Result<Write, Failure> {
    let template = &set.template;
    if template.metadata.labels.is_empty() {
        return Err(Failure {
            reason: FAILED_CREATE,
            message: "unable to create pods, no labels".into(),
        });
    }
    let prefix = format!("{}-", set.meta.name);
    Ok(template.creation(&set.meta.namespace, &prefix, owner))
}

/// Interprets the results of creations: the names of new pods, or errors.
///
/// Errors because the namespace is being deleted are not failures: no pods are needed there.
/// Neither are writes skipped after an error.
pub fn report_creations(results: impl IntoIterator<Item = Result<String, ApiError>>) -> Report {
    let mut report = Report::default();
    for result in results {
        match result {
            Ok(name) => report.note(false, "SuccessfulCreate", format!("Created pod: {name}")),
            Err(error) if error.is_skipped() || is_namespace_terminating(&error) => {}
            Err(error) => {
                report.note(
                    true,
                    FAILED_CREATE,
                    format!("Error creating: {}", error.message),
                );
                report.fail(FAILED_CREATE, error.message);
            }
        }
    }
    report
}

/// The write that deletes a pod, with its UID as a precondition.
pub fn deletion(pod: &Candidate) -> Write {
    Write::delete_exactly("v1/Pod", &pod.meta)
}

/// Interprets the results of deletions of pods. A pod that is already deleted is not a failure.
pub fn report_deletions<'p>(
    results: impl IntoIterator<Item = (&'p Candidate, Result<(), ApiError>)>,
) -> Report {
    let mut report = Report::default();
    for (pod, result) in results {
        match result {
            Ok(()) => report.note(
                false,
                "SuccessfulDelete",
                format!("Deleted pod: {}", pod.meta.name),
            ),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                report.note(
                    true,
                    FAILED_DELETE,
                    format!("Error deleting: {}", error.message),
                );
                report.fail(
                    FAILED_DELETE,
                    format!("unable to delete pods: {}", error.message),
                );
            }
        }
    }
    report
}

impl Report {
    /// Whether pods were created or deleted and none failed.
    pub fn is_success(&self) -> bool {
        self.failure.is_none() && self.notes.iter().any(|note| !note.is_warning)
    }

    fn note(&mut self, is_warning: bool, reason: &'static str, message: String) {
        self.notes.push(Note {
            is_warning,
            reason,
            message,
        });
    }

    fn fail(&mut self, reason: &'static str, message: String) {
        self.failure.get_or_insert(Failure { reason, message });
    }
}
