//! The needs of each pod of a StatefulSet, and whether the pods after it have to wait.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_control.go: processReplica, processCondemned, slowStartBatch.
//! Upstream: pkg/controller/statefulset/stateful_pod_control.go: ClaimsMatchRetentionPolicy, PodClaimIsStale.

use std::time::Duration;

use flyball_pods::has_ended;
use flyball_sdk::prelude::*;

use crate::claims::Claims;
use crate::identity::{matches, storage_matches};
use crate::members::Replica;
use crate::retention::Owners;
use crate::views::{Pod, StatefulSet};

/// The next change that a pod needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Nothing,
    /// The pod has to be deleted.
    Deletion,
    /// The pod has to be created, with its claims.
    Creation,
    /// The pod has to be repaired.
    Repair(Repair),
}

/// The parts of a pod that have to be repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// The pod is pending, so its missing claims are created.
    pub claims: bool,
    /// The pod's labels have to be repaired.
    pub identity: bool,
    /// The pod's volumes have to be repaired, and its missing claims created.
    pub storage: bool,
    /// The owners of the pod's claims have to be changed.
    pub owners: bool,
}

/// The next step for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub need: Need,
    /// Whether, in order, the pods after it have to wait.
    pub blocks: bool,
}

impl Step {
    fn blocking(need: Need) -> Self {
        Self { need, blocks: true }
    }
}

/// The inputs of the decisions.
pub struct Situation<'a> {
    pub set: &'a StatefulSet,
    pub claims: &'a Claims,
    pub now: Time,
}

impl Situation<'_> {
    fn min_ready(&self) -> Duration {
        self.set.min_ready()
    }

    /// Returns the next step for a replica.
    pub fn replica(&self, replica: &Replica) -> Step {
        let Some(pod) = replica.pod else {
            return self.missing(replica);
        };
        if has_ended(&pod.phase) {
            // The next pod is created after this one is deleted.
            let is_alive = !pod.is_terminating();
            return Step::blocking(if is_alive {
                Need::Deletion
            } else {
                Need::Nothing
            });
        }
        let is_pending = pod.phase == "Pending";
        let blocks = pod.is_terminating()
            || !pod.is_ready()
            || !pod.is_available(self.min_ready(), self.now);
        // In order, a pod is repaired once it is available. But it may need its claims to get there.
        let is_repaired = !(self.set.is_ordered() && blocks);
        let repair = Repair {
            claims: is_pending,
            ..self.repair(pod, replica.ordinal, is_repaired)
        };
        let need = match repair == Repair::default() {
            true => Need::Nothing,
            false => Need::Repair(repair),
        };
        Step { need, blocks }
    }

    /// A pod whose name was used before may find a claim that is about to be deleted with its
    /// predecessor: it waits for that.
    fn missing(&self, replica: &Replica) -> Step {
        let owners = Owners::of(self.set, replica.ordinal, "");
        let is_stale = self.set.retention.deletes_when_scaled()
            && self
                .claims
                .of(self.set, replica.ordinal)
                .any(|claim| owners.pod_is_stale(&claim.meta.owner_references));
        Step::blocking(if is_stale {
            Need::Nothing
        } else {
            Need::Creation
        })
    }

    fn repair(&self, pod: &Pod, ordinal: i64, is_repaired: bool) -> Repair {
        if !is_repaired {
            return Repair::default();
        }
        Repair {
            claims: false,
            identity: !matches(self.set, pod, ordinal),
            storage: !storage_matches(self.set, pod, ordinal),
            // A pending pod's claims get their owners anyway.
            owners: pod.phase != "Pending" && !self.owners_match(ordinal, &pod.meta.uid),
        }
    }

    /// Whether the claims of a pod have the owners that the retention policy asks for.
    fn owners_match(&self, ordinal: i64, uid: &str) -> bool {
        if self.set.claim_templates.is_empty() {
            return true;
        }
        let owners = Owners::of(self.set, ordinal, uid);
        self.claims
            .of(self.set, ordinal)
            .all(|claim| owners.match_those(&claim.meta.owner_references))
    }

    /// Whether the claims of a condemned pod have the owners that the retention policy asks for.
    pub fn claims_match(&self, condemned: &Replica) -> bool {
        self.owners_match(condemned.ordinal, condemned.uid())
    }

    /// Whether a condemned pod is deleted now. In order, it has to be available or the first pod that
    /// is not.
    pub fn is_due(&self, condemned: &Replica, first_unavailable: Option<i64>) -> bool {
        let is_next = |pod: &Pod| {
            !self.set.is_ordered()
                || pod.is_ready() && pod.is_available(self.min_ready(), self.now)
                || first_unavailable == Some(condemned.ordinal)
        };
        condemned
            .pod
            .is_some_and(|pod| !pod.is_terminating() && is_next(pod))
    }
}

/// The rounds in which pods are processed: in order one by one; otherwise 1, 2, 4 … of them, but at
/// most `max` at once.
pub fn rounds<T>(items: &[T], is_ordered: bool, max: usize) -> impl Iterator<Item = &[T]> {
    let (mut rest, mut size) = (items, 1);
    std::iter::from_fn(move || {
        let (round, later) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        rest = later;
        if !is_ordered {
            size = (size * 2).min(max);
        }
        (!round.is_empty()).then_some(round)
    })
}

#[cfg(test)]
mod tests;
