//! The owners of a pod's claims (KEP-1847): by the retention policy, the garbage collector deletes
//! the claims with the StatefulSet or after the pod was scaled down.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: getPersistentVolumeClaimRetentionPolicy, matchesRef,
//! hasUnexpectedController, hasNonControllerOwner, removeRefs, isClaimOwnerUpToDate, updateClaimOwnerRefForSetAndPod,
//! hasOwnerRef, hasStaleOwnerRef, addControllerRef.

use flyball_sdk::meta::OwnerReference;
use flyball_sdk::prelude::*;

use crate::identity;
use crate::views::{Owner, Pod, Retention, StatefulSet};

/// The owners that a pod's claims should have.
pub struct Owners {
    set: Reference,
    /// The pod; its UID is empty if the pod does not exist.
    pod: Reference,
    with_set: bool,
    with_pod: bool,
    is_retaining: bool,
}

/// The StatefulSet or the pod.
struct Reference(Owner);

impl Retention {
    /// Whether claims are deleted with the StatefulSet. A value that the API does not define means `Retain`.
    fn deletes_with_set(&self) -> bool {
        self.when_deleted == "Delete"
    }

    /// Whether claims are deleted after their pod was scaled down.
    pub fn deletes_when_scaled(&self) -> bool {
        self.when_scaled == "Delete"
    }
}

impl Owners {
    /// The owners of the claims of the pod with this ordinal. `pod_uid` is empty if there is no such
    /// pod.
    pub fn of(set: &StatefulSet, ordinal: i64, pod_uid: &str) -> Self {
        let pod = Meta {
            name: identity::pod_name(&set.meta.name, ordinal),
            uid: pod_uid.into(),
            ..Meta::default()
        };
        let policy = &set.retention;
        let is_condemned = !set.wants(ordinal);
        let with_pod = policy.deletes_when_scaled() && is_condemned;
        Self {
            set: Reference::to(&set.meta, StatefulSet::KIND),
            pod: Reference::to(&pod, Pod::KIND),
            // A claim is not deleted with the set while it waits for its pod's deletion.
            with_set: policy.deletes_with_set() && !with_pod,
            with_pod,
            is_retaining: !policy.deletes_with_set() && !policy.deletes_when_scaled(),
        }
    }

    /// Whether a claim with these owners has to be left as it is.
    pub fn match_those(&self, owners: &[Owner]) -> bool {
        let (has_set, has_pod) = (self.set.owns(owners), self.pod.owns(owners));
        if self.set.is_stale(owners) || self.pod.is_stale(owners) {
            // The reference names an object that was deleted. The garbage collector handles it.
            return true;
        }
        if self.conflict_with(owners) {
            return !has_set && !has_pod;
        }
        let is_controller = |owner: &Owner| {
            owner.controller == Some(true)
                || ![&self.set, &self.pod].iter().any(|own| own.is(owner))
        };
        owners.iter().all(is_controller) && has_set == self.with_set && has_pod == self.with_pod
    }

    /// Whether another controller owns the claim, so that the policy can't be applied. If the policy is to retain
    /// claims, other owners don't matter.
    pub fn conflict_with(&self, owners: &[Owner]) -> bool {
        let is_foreign = |owner: &Owner| {
            for own in [&self.set, &self.pod] {
                if own.names(owner) {
                    return !own.is(owner);
                }
            }
            owner.controller == Some(true)
        };
        !self.is_retaining && owners.iter().any(is_foreign)
    }

    /// Whether a claim belongs to a pod that was deleted, so that the next pod of its name must not
    /// use it.
    pub fn pod_is_stale(&self, owners: &[Owner]) -> bool {
        self.pod.is_stale(owners)
    }

    /// Returns the owners that a claim with these owners should have.
    pub fn applied(&self, owners: &[Owner]) -> Vec<Owner> {
        let is_other = |owner: &&Owner| !self.set.names(owner) && !self.pod.names(owner);
        let mut applied: Vec<Owner> = owners.iter().filter(is_other).cloned().collect();
        if self.conflict_with(owners) {
            return applied;
        }
        for (own, is_wanted) in [(&self.pod, self.with_pod), (&self.set, self.with_set)] {
            if is_wanted && !own.owns(&applied) {
                applied.push(own.0.clone());
            }
        }
        applied
    }
}

impl Reference {
    fn to(object: &Meta, kind: &str) -> Self {
        let OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..
        } = object.owner_reference(kind);
        Self(Owner {
            api_version,
            kind,
            name,
            uid,
            controller: Some(true),
            block_owner_deletion: Some(true),
        })
    }

    /// Whether an owner reference has this kind and name.
    fn names(&self, owner: &Owner) -> bool {
        let key = |owner: &Owner| {
            (
                owner.api_version.clone(),
                owner.kind.clone(),
                owner.name.clone(),
            )
        };
        key(&self.0) == key(owner)
    }

    /// Whether an owner reference has this UID.
    fn is(&self, owner: &Owner) -> bool {
        self.0.uid == owner.uid
    }

    fn owns(&self, owners: &[Owner]) -> bool {
        owners.iter().any(|owner| self.is(owner))
    }

    /// Whether the first owner reference of this kind and name has another UID.
    fn is_stale(&self, owners: &[Owner]) -> bool {
        let named = owners.iter().find(|owner| self.names(owner));
        named.is_some_and(|owner| !self.is(owner))
    }
}

#[cfg(test)]
mod tests;
