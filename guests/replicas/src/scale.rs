//! How many pods to make or to delete, the pod that is made, and what the answers mean.

use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::{ApiError, OwnerReference, Write};

use crate::views::{Candidate, Set};

/// The most pods that one reconcile makes or deletes. Their own events bring the next one.
pub const BURST: usize = 500;

/// What brings the number of pods to what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There are as many as there should be.
    Stay,
    /// So many more are needed.
    Create(usize),
    /// So many must go.
    Delete(usize),
}

/// The next step, from the number of active pods to the wanted one.
pub fn step(active: usize, wanted: usize) -> Step {
    match active.abs_diff(wanted).min(BURST) {
        0 => Step::Stay,
        missing if active < wanted => Step::Create(missing),
        surplus => Step::Delete(surplus),
    }
}

/// What came of a step: what to tell, and why it failed, if it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// To be told as events.
    pub notes: Vec<Note>,
    /// The first failure.
    pub failure: Option<Failure>,
}

/// An event about the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether it is a warning.
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Why a step failed, as the set's condition says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// [`FAILED_CREATE`] or [`FAILED_DELETE`].
    pub reason: &'static str,
    /// The API's own words.
    pub message: String,
}

/// The reason of the event and of the condition when pods can't be made.
pub const FAILED_CREATE: &str = "FailedCreate";
/// The reason of the event and of the condition when pods can't be deleted.
pub const FAILED_DELETE: &str = "FailedDelete";

/// The write that makes one pod.
///
/// # Errors
/// The template has no labels, so that the pod could not be found again.
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

/// What creations came to: the names of the new pods, or why there are none.
///
/// In a namespace that is being deleted no pod can be made, and none is missed: that is no failure.
/// Nor is what was skipped after one.
pub fn report_creations(answers: impl IntoIterator<Item = Result<String, ApiError>>) -> Report {
    let mut report = Report::default();
    for answer in answers {
        match answer {
            Ok(name) => report.tell(false, "SuccessfulCreate", format!("Created pod: {name}")),
            Err(error) if error.is_skipped() || is_namespace_terminating(&error) => {}
            Err(error) => {
                report.tell(
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

/// The write that deletes a pod: this one, not another of its name.
pub fn deletion(pod: &Candidate) -> Write {
    Write::delete_exactly("v1/Pod", &pod.meta)
}

/// What deletions came to, in the order of the pods. A pod that is gone already is no failure.
pub fn report_deletions(
    pods: &[&Candidate],
    answers: impl IntoIterator<Item = Result<(), ApiError>>,
) -> Report {
    let mut report = Report::default();
    for (pod, answer) in pods.iter().zip(answers) {
        match answer {
            Ok(()) => report.tell(
                false,
                "SuccessfulDelete",
                format!("Deleted pod: {}", pod.meta.name),
            ),
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                report.tell(
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
    /// Whether pods were made or deleted, and none was refused.
    pub fn is_success(&self) -> bool {
        self.failure.is_none() && self.notes.iter().any(|note| !note.is_warning)
    }

    fn tell(&mut self, is_warning: bool, reason: &'static str, message: String) {
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
