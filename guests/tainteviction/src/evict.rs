//! Evicts pods: marks them as disrupted, and deletes them.

use std::time::Duration;

use flyball_sdk::imports::ObjectReference;
use flyball_sdk::info;
use flyball_sdk::prelude::*;

use crate::views::Pod;

/// The counter of deleted pods.
pub const DELETED: &str = "taint_eviction_controller_pod_deletions_total";
/// The histogram of how long after it was due a pod was deleted, in seconds.
pub const DURATION: &str = "taint_eviction_controller_pod_deletion_duration_seconds";

/// The most pods in one batch of writes.
const BATCH: usize = 500;
/// The reason of the events.
const REASON: &str = "TaintManagerEviction";

/// The condition of an evicted pod. Controllers such as that of Jobs distinguish disruptions from other failures by it.
const CONDITION: &str = "DisruptionTarget";
const CONDITION_REASON: &str = "DeletionByTaintManager";
const CONDITION_MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

/// Whether this controller has evicted the pod.
pub fn is_evicted(pod: &Pod) -> bool {
    pod.meta.is_deleting() && is_marked(pod)
}

fn is_marked(pod: &Pod) -> bool {
    let is_ours = |condition: &Condition| {
        condition.is_true()
            && condition.reason == CONDITION_REASON
            && condition.message == CONDITION_MESSAGE
    };
    pod.disruption.as_ref().is_some_and(is_ours)
}

/// Deletes pods, each with the time since when that is due. A pod that can't be marked is not deleted. Returns the UIDs of
/// the pods that don't exist any more or are being deleted.
///
/// # Errors
/// The second value: a write failed. All other pods were deleted.
pub fn evict(host: &Host, pods: &[(Pod, Duration)]) -> (Vec<String>, Option<Error>) {
    let (mut done, mut errors) = (Vec::new(), Vec::new());
    for pods in pods.chunks(BATCH) {
        let begun = host.now();
        for ((pod, late), result) in pods.iter().zip(delete_batch(host, pods)) {
            let result = result
                .found()
                .doing(|| format!("deleting pod {}", pod.meta.key()));
            match result {
                Ok(deleted) => {
                    done.push(pod.meta.uid.clone());
                    if deleted.is_some() {
                        let took = host.now().since(begun) + *late;
                        report(host, pod, took);
                    }
                }
                Err(error) => errors.push(error),
            }
        }
    }
    (done, Error::join(errors))
}

/// Records the deletion of a pod.
fn report(host: &Host, pod: &Pod, took: Duration) {
    let key = pod.meta.key();
    info!(host, "deleted pod {key}: it does not tolerate a taint");
    emit(host, &key, &format!("Marking for deletion Pod {key}"));
    host.metrics().add(DELETED, &[], 1.0);
    host.metrics().observe(DURATION, &[], took.as_secs_f64());
}

/// Records the end of a pending eviction.
pub fn report_cancelled(host: &Host, pod: &Key) {
    emit(host, pod, &format!("Cancelling deletion of Pod {pod}"));
}

/// As kube-controller-manager's, the event does not name the pod's UID.
fn emit(host: &Host, pod: &Key, message: &str) {
    let about = ObjectReference {
        kind: Pod::KIND.into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: String::new(),
        resource_version: String::new(),
    };
    host.emit(Event::normal(&about, REASON, message));
}

/// Returns one result for each pod.
fn delete_batch(host: &Host, pods: &[(Pod, Duration)]) -> Vec<Result<Answer, ApiError>> {
    let now = host.now();
    let unmarked = pods.iter().filter(|(pod, _)| !is_marked(pod));
    let patches = unmarked.map(|(pod, _)| mark(pod, now));
    let mut marked = host.batch().extend(patches).run().into_iter();
    let marked: Vec<Option<ApiError>> = pods
        .iter()
        .map(|(pod, _)| match is_marked(pod) {
            true => None,
            false => marked.next().and_then(Result::err),
        })
        .collect();
    let ready = pods.iter().zip(&marked);
    let deletions = ready
        .filter(|(_, error)| error.is_none())
        .map(|((pod, _), _)| Write::delete_exactly(Pod::KIND, &pod.meta));
    let mut deleted = host.batch().extend(deletions).run().into_iter();
    let result = |error: Option<ApiError>| match error {
        Some(error) => Err(error),
        None => deleted.next().expect("one result for each deletion"),
    };
    marked.into_iter().map(result).collect()
}

/// The patch that sets the condition. It fails if the name belongs to another pod.
fn mark(pod: &Pod, now: Time) -> Write {
    let Meta {
        namespace,
        name,
        uid,
        generation,
        ..
    } = &pod.meta;
    let before = pod.disruption.as_ref().filter(|before| before.is_true());
    let condition = Condition {
        observed_generation: Some(*generation),
        last_transition_time: before
            .and_then(|before| before.last_transition_time)
            .or(Some(now)),
        ..Condition::new(CONDITION, "True", CONDITION_REASON, CONDITION_MESSAGE)
    };
    let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
    Write::patch(Pod::KIND, namespace, name, PatchType::Strategic, &patch).on("status")
}
