//! Deletes pods by force: without their kubelets.
//!
//! Upstream: pkg/controller/podgc/gc_controller.go: markFailedAndDeletePod, markFailedAndDeletePodWithCondition.

use flyball_pods::{has_ended, patch_and_delete};
use flyball_sdk::info;
use flyball_sdk::prelude::*;

use crate::views::Pod;

/// The counter of pods that are deleted by force, by namespace and reason.
pub const DELETED: &str = "pod_gc_collector_force_delete_pods_total";
/// The counter of pods whose deletion failed.
pub const FAILED: &str = "pod_gc_collector_force_delete_pod_errors_total";

/// The most pods in one batch of writes.
const BATCH: usize = 500;

/// The reason for a deletion of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There are too many ended pods.
    Terminated,
    /// The node is out of service.
    OutOfService,
    /// The node does not exist.
    Orphaned,
    /// The pod was never on a node.
    Unscheduled,
}

impl Reason {
    /// The label of the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

/// Sets the phase of pods that have not ended to `Failed`, and deletes all of them without grace period. A pod whose
/// phase can't be set is not deleted.
///
/// # Errors
/// A write failed. All other pods were deleted. Pods that don't exist any more don't cause an error.
pub fn by_force(host: &Host, reason: Reason, pods: &[Pod]) -> Result<(), Error> {
    let mut errors = Vec::new();
    for pods in pods.chunks(BATCH) {
        for pod in pods {
            info!(
                host,
                "deleting pod {} by force: {}",
                pod.meta.key(),
                reason.as_str()
            );
        }
        for (pod, result) in delete_batch(host, reason, pods) {
            let labels = [pod.meta.namespace.as_str(), reason.as_str()];
            host.metrics().add(DELETED, &labels, 1.0);
            if result.is_err() {
                host.metrics().add(FAILED, &labels, 1.0);
            }
            let failed = result
                .found()
                .doing(|| format!("deleting pod {}", pod.meta.key()));
            errors.extend(failed.err());
        }
    }
    Error::join(errors).map_or(Ok(()), Err)
}

/// Returns each pod with its result.
fn delete_batch<'p>(
    host: &Host,
    reason: Reason,
    pods: &'p [Pod],
) -> Vec<(&'p Pod, Result<Answer, ApiError>)> {
    let now = host.now();
    let patch = |pod: &&Pod| (!has_ended(&pod.phase)).then(|| failing(pod, reason, now));
    let delete = |pod: &&Pod| Write::delete_exactly(Pod::KIND, &pod.meta).grace_seconds(0);
    patch_and_delete(host, pods, patch, delete)
}

/// The patch that sets the phase. It fails if the name belongs to another pod.
fn failing(pod: &Pod, reason: Reason, now: Time) -> Write {
    let Meta {
        namespace,
        name,
        uid,
        generation,
        ..
    } = &pod.meta;
    let mut status = json!({"phase": "Failed", "observedGeneration": generation});
    if reason == Reason::Orphaned {
        status["conditions"] = json!([disruption(pod, now)]);
    }
    let patch = json!({"metadata": {"uid": uid}, "status": status});
    Write::patch(Pod::KIND, namespace, name, PatchType::Strategic, &patch).on("status")
}

/// The condition of an orphan. Controllers such as the Job controller distinguish disruptions from other failures by
/// it.
fn disruption(pod: &Pod, now: Time) -> Condition {
    let before = pod.disruption.as_ref().filter(|before| before.is_true());
    Condition {
        observed_generation: Some(pod.meta.generation),
        last_transition_time: before
            .and_then(|before| before.last_transition_time)
            .or(Some(now)),
        ..Condition::new(
            "DisruptionTarget",
            "True",
            "DeletionByPodGC",
            "PodGC: node no longer exists",
        )
    }
}
