//! Evicts pods: marks them as disrupted, and deletes them.
//!
//! Upstream: pkg/controller/tainteviction/taint_eviction.go: deletePodHandler, addConditionAndDeletePod,
//! cancelWorkWithEvent, emitPodDeletionEvent, emitCancelPodDeletionEvent.
//! Upstream: pkg/controller/tainteviction/metrics/metrics.go.

use std::time::Duration;

use flyball_pods::disruption::{Disruption, Target};
use flyball_sdk::ObjectReference;
use flyball_sdk::info;
use flyball_sdk::prelude::*;

use crate::views::Pod;

/// The counter of deleted pods.
pub const DELETED: &str = "taint_eviction_controller_pod_deletions_total";
/// The histogram of the delay between the time when a pod's deletion was due and its deletion, in seconds.
pub const DURATION: &str = "taint_eviction_controller_pod_deletion_duration_seconds";

/// The most pods in one batch of writes.
const BATCH: usize = 500;
/// How long a failed attempt is remembered. It is longer than the time until the next one.
const ANNOUNCED_FOR: Duration = Duration::from_secs(120);
/// The reason of the events.
const REASON: &str = "TaintManagerEviction";

/// The condition of an evicted pod.
const DISRUPTION: Disruption = Disruption {
    reason: "DeletionByTaintManager",
    message: "Taint manager: deleting due to NoExecute taint",
};

/// Whether this controller has evicted the pod.
pub fn is_evicted(pod: &Pod) -> bool {
    pod.meta.is_deleting() && DISRUPTION.is_in(pod.disruption.as_ref())
}

/// Deletes pods, each given with the time for which its deletion has been due. A pod that can't be marked is not
/// deleted. Returns the UIDs of the pods that don't exist any more or are being deleted.
///
/// # Errors
/// The second value is the error of a failed write. All other pods were deleted.
pub fn evict(host: &Host, pods: &[(Pod, Duration)]) -> (Vec<String>, Option<Error>) {
    let (mut done, mut errors) = (Vec::new(), Vec::new());
    for pods in pods.chunks(BATCH) {
        let begun = host.now();
        let targets = pods.iter().map(|(pod, late)| ((pod, *late), target(pod)));
        for ((pod, late), result) in DISRUPTION.delete(host, targets) {
            let result = result
                .found()
                .doing(|| format!("deleting pod {}", pod.meta.key()));
            announce(host, pod, result.is_err());
            match result {
                Ok(deleted) => {
                    done.push(pod.meta.uid.clone());
                    if deleted.is_some() {
                        let took = host.now().since(begun) + late;
                        report(host, pod, took);
                    }
                }
                Err(error) => errors.push(error),
            }
        }
    }
    (done, Error::join(errors))
}

/// Emits the event of an eviction, once for all attempts. As in kube-controller-manager, it does not say that the pod
/// could be deleted.
fn announce(host: &Host, pod: &Pod, is_tried_again: bool) {
    let announced = format!("announced/{}", pod.meta.uid);
    if host.memo().get::<bool>(&announced).is_none() {
        let key = pod.meta.key();
        emit(host, &key, &format!("Marking for deletion Pod {key}"));
    }
    if is_tried_again {
        let uid = &pod.meta.uid;
        // Without the entry, the next attempt emits the event again.
        let _ = host.memo().put(&announced, &true, uid, ANNOUNCED_FOR);
    }
}

/// Records the deletion of a pod.
fn report(host: &Host, pod: &Pod, took: Duration) {
    let key = pod.meta.key();
    info!(host, "deleted pod {key}: it does not tolerate a taint");
    host.metrics().add(DELETED, &[], 1.0);
    host.metrics().observe(DURATION, &[], took.as_secs_f64());
}

/// Records the end of a pending eviction.
pub fn report_cancelled(host: &Host, pod: &Key) {
    emit(host, pod, &format!("Cancelling deletion of Pod {pod}"));
}

/// Emits an event about a pod. Like kube-controller-manager's event, it doesn't contain the pod's UID.
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

fn target(pod: &Pod) -> Target<'_> {
    Target {
        pod: &pod.meta,
        before: pod.disruption.as_ref(),
        observed_generation: Some(pod.meta.generation),
    }
}
