//! The events about a StatefulSet's pods and claims.
//!
//! Upstream: pkg/controller/statefulset/stateful_pod_control.go: recordPodEvent, recordClaimEvent.

use flyball_sdk::prelude::*;

use crate::views::StatefulSet;

/// The operation on a pod or a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    fn text(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }
}

/// Emits the event that something was done to a pod, or why it failed.
pub fn of_pod(host: &Host, set: &StatefulSet, verb: Verb, pod: &str, failure: Option<&str>) {
    let (verb, name) = (verb.text(), &set.meta.name);
    let about = format!("{verb} Pod {pod} in StatefulSet {name}");
    let ending = match failure {
        None => format!("{about} successful"),
        Some(failure) => format!("{about} failed error: {failure}"),
    };
    emit(host, set, verb, failure.is_some(), &ending);
}

/// Emits the event that a pod's claim was created, or why that failed.
pub fn of_claim(host: &Host, set: &StatefulSet, pod: &str, claim: &str, failure: Option<&str>) {
    let (verb, name) = (Verb::Create.text(), &set.meta.name);
    let message = match failure {
        None => format!("{verb} Claim {claim} Pod {pod} in StatefulSet {name} success"),
        Some(failure) => format!(
            "{verb} Claim {claim} for Pod {pod} in StatefulSet {name} failed error: {failure}"
        ),
    };
    emit(host, set, verb, failure.is_some(), &message);
}

/// Emits the event that another controller owns a claim.
pub fn of_conflict(host: &Host, set: &StatefulSet, claim: &str) {
    // The typo is kube-controller-manager's.
    let message = format!(
        "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, \
         the retention policy is ignored for this claim"
    );
    let about = set.meta.reference(StatefulSet::KIND);
    host.emit(Event::warning(&about, "ConflictingController", &message));
}

fn emit(host: &Host, set: &StatefulSet, verb: &str, has_failed: bool, message: &str) {
    let about = set.meta.reference(StatefulSet::KIND);
    match has_failed {
        false => host.emit(Event::normal(&about, &format!("Successful{verb}"), message)),
        true => host.emit(Event::warning(&about, &format!("Failed{verb}"), message)),
    }
}
