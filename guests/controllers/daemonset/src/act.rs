//! Creates and deletes pods, and emits the events about it.
//!
//! Upstream: pkg/controller/daemon/daemon_controller.go: syncNodes.
//! Upstream: pkg/controller/controller_utils.go: createPods, DeletePod.

use flyball_pods::{created_name, refusal};
use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;
use flyball_sdk::{ObjectReference, debug};

use crate::observed::Observed;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::template::creations;
use crate::views::{DaemonSet, Pod};

/// The result of carrying out a plan.
#[derive(Debug, Default)]
pub struct Progress {
    /// Whether pods were created.
    pub created: bool,
    pub failure: Option<Error>,
}

/// Carries out a plan, up to the maximum number of pods. The changes of these pods cause the next
/// reconcile. Deletions are carried out even if creations fail.
pub fn carry_out(host: &Host, observed: &Observed, plan: &Plan, settings: &Settings) -> Progress {
    let about = observed.set.meta.reference(DaemonSet::KIND);
    plan.notes.iter().for_each(|note| note.emit(host, &about));
    if !plan.is_empty() {
        let (missing, surplus) = (plan.create.len(), plan.delete.len());
        debug!(host, "creating {missing} pods and deleting {surplus}");
    }
    let nodes = &plan.create[..plan.create.len().min(settings.burst)];
    let surplus = &plan.delete[..plan.delete.len().min(settings.burst)];

    let mut errors = Vec::new();
    let mut created = false;
    if !nodes.is_empty() && !refusal::is_expected(host, &about.uid) {
        match creations(observed.set, observed.hash, nodes) {
            Ok(creations) => created = create(host, &about, creations, &mut errors),
            Err(error) => errors.push(error),
        }
    }
    delete(host, &about, surplus, &mut errors);
    Progress {
        created,
        failure: Error::join(errors),
    }
}

/// Creates pods in slow-start rounds of 1, 2, 4 … and stops at the first round with an error. In a
/// namespace that is being deleted, a refusal is not reported as an error, and stops creations for some minutes. Returns
/// whether any pod was created.
fn create(
    host: &Host,
    about: &ObjectReference,
    creations: Vec<Write>,
    errors: &mut Vec<Error>,
) -> bool {
    let mut created = false;
    let results = host.batch().extend(creations).slow_start(1).run();
    refusal::remember(host, &about.uid, &results);
    for result in results {
        match result {
            Ok(answer) => {
                created = true;
                let message = format!("Created pod: {}", created_name(&answer).unwrap_or_default());
                host.emit(Event::normal(about, "SuccessfulCreate", &message));
            }
            Err(error) if error.is_skipped() || is_namespace_terminating(&error) => {}
            Err(error) => {
                let message = format!("Error creating: {}", error.message);
                host.emit(Event::warning(about, "FailedCreate", &message));
                errors.push(error.into());
            }
        }
    }
    created
}

/// Deletes pods. A pod that does not exist any more is not an error.
fn delete(host: &Host, about: &ObjectReference, pods: &[&Pod], errors: &mut Vec<Error>) {
    let deletions = pods.iter().map(|pod| {
        let deletion = Write::delete(Pod::KIND, &about.namespace, &pod.name).uid(&pod.uid);
        (pod, deletion)
    });
    for (pod, result) in host.tagged_batch().extend(deletions).run() {
        match result {
            Ok(_) => {
                let message = format!("Deleted pod: {}", pod.name);
                host.emit(Event::normal(about, "SuccessfulDelete", &message));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let message = format!("Error deleting: {}", error.message);
                host.emit(Event::warning(about, "FailedDelete", &message));
                errors.push(Error::Doing(
                    "unable to delete pods".into(),
                    Box::new(error.into()),
                ));
            }
        }
    }
}
