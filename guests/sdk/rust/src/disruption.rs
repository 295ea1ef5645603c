//! Disruptions of pods: the condition that a controller sets before it deletes a pod, so that controllers such as that of Jobs
//! distinguish disruptions from other failures.

use flyball_types::ApiError;
use serde_json::json;

use crate::condition::Condition;
use crate::host::Host;
use crate::meta::Meta;
use crate::time::Time;
use crate::write::{Answer, PatchType, Write};

/// The type of the condition.
const CONDITION: &str = "DisruptionTarget";
const POD: &str = "v1/Pod";
/// The buckets, in seconds, of a histogram of how long after it was due a pod is deleted: kube-controller-manager's.
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
    /// Whether this is its condition.
    pub fn is_in(&self, condition: Option<&Condition>) -> bool {
        let is_own = |condition: &Condition| {
            condition.is_true()
                && condition.reason == self.reason
                && condition.message == self.message
        };
        condition.is_some_and(is_own)
    }

    /// Sets the condition of pods that don't have it, and deletes them, all side by side. A pod whose condition can't be set is
    /// not deleted. Returns one result for each pod.
    pub fn delete(&self, host: &Host, pods: &[Target]) -> Vec<Result<Answer, ApiError>> {
        let now = host.now();
        let unmarked = pods.iter().filter(|one| !self.is_in(one.before));
        let patches = unmarked.map(|one| self.mark(one, now));
        let mut marked = host.batch().extend(patches).run().into_iter();
        let marked: Vec<Option<ApiError>> = pods
            .iter()
            .map(|one| match self.is_in(one.before) {
                true => None,
                false => marked.next().and_then(Result::err),
            })
            .collect();
        let ready = pods.iter().zip(&marked);
        let deletions = ready
            .filter(|(_, error)| error.is_none())
            .map(|(one, _)| Write::delete_exactly(POD, one.pod));
        let mut deleted = host.batch().extend(deletions).run().into_iter();
        let result = |error: Option<ApiError>| match error {
            Some(error) => Err(error),
            None => deleted.next().expect("one result for each deletion"),
        };
        marked.into_iter().map(result).collect()
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
