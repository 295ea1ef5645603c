//! Disruptions of pods: the condition that a controller sets before it deletes a pod, so that controllers such as the
//! Job controller distinguish disruptions from other failures (KEP-3329).
//!
//! Upstream: pkg/controller/tainteviction/taint_eviction.go: addConditionAndDeletePod.
//! Upstream: pkg/controller/devicetainteviction/device_taint_eviction.go: addConditionAndDeletePod.
//! Upstream: pkg/controller/podgc/gc_controller.go: markFailedAndDeletePodWithCondition.
//! Upstream: pkg/api/v1/pod/util.go: UpdatePodCondition, GetPodCondition.

use flyball_sdk::prelude::*;

use crate::delete::patch_and_delete;

/// The type of the condition.
const CONDITION: &str = "DisruptionTarget";
const POD: &str = "v1/Pod";
/// The buckets, in seconds, of histograms of the delay between the time when a pod's deletion was due and its deletion,
/// as in kube-controller-manager.
pub const LATENESS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
];

/// Why a controller deletes pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disruption {
    /// The condition's reason.
    pub reason: &'static str,
    /// The condition's message.
    pub message: &'static str,
}

/// A pod to delete.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub pod: &'a Meta,
    /// Its condition so far.
    pub before: Option<&'a Condition>,
    /// The generation that the new condition names.
    pub observed_generation: Option<i64>,
}

impl Disruption {
    /// Whether this is the condition of the disruption.
    pub fn is_in(&self, condition: Option<&Condition>) -> bool {
        let is_own = |condition: &Condition| {
            condition.is_true()
                && condition.reason == self.reason
                && condition.message == self.message
        };
        condition.is_some_and(is_own)
    }

    /// Sets the condition of pods that don't have it, and deletes them, as [`patch_and_delete`] does.
    pub fn delete<'p, T>(
        &self,
        host: &Host,
        pods: impl IntoIterator<Item = (T, Target<'p>)>,
    ) -> Vec<(T, Result<Answer, ApiError>)> {
        let now = host.now();
        let mark = |(_, pod): &(T, Target)| {
            let is_marked = self.is_in(pod.before);
            (!is_marked).then(|| self.mark(pod, now))
        };
        let delete = |(_, pod): &(T, Target)| Write::delete_exactly(POD, pod.pod);
        let results = patch_and_delete(host, pods, mark, delete).into_iter();
        results.map(|((tag, _), result)| (tag, result)).collect()
    }

    /// The patch that sets the condition. It fails if the name belongs to another pod.
    fn mark(&self, target: &Target, now: Time) -> Write {
        let Meta {
            namespace,
            name,
            uid,
            ..
        } = target.pod;
        let before = target.before.filter(|before| before.is_true());
        let condition = Condition {
            observed_generation: target.observed_generation,
            last_transition_time: before
                .and_then(|before| before.last_transition_time)
                .or(Some(now)),
            ..Condition::new(CONDITION, "True", self.reason, self.message)
        };
        let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
        Write::patch(POD, namespace, name, PatchType::Strategic, &patch).on("status")
    }
}
