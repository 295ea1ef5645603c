//! Claims a Job's pods. Orphans that match its selector are adopted; pods that it controls and that
//! no longer match are released. Adoption adds the finalizer and release removes it.
//!
//! Pods that have ended and are counted are not read: nearly all pods of a Job with 100,000 completions are in this
//! state.
//!
//! Upstream: pkg/controller/job/job_controller.go: getPodsForJob, removeTrackingFinalizerPatch.
//! Upstream: pkg/controller/controller_ref_manager.go: ClaimPods, ClaimObject, AdoptPod, ReleasePod,
//! RecheckDeletionTimestamp.

use flyball_ownership::{Adoptable, Facts, Ownership, may_adopt};
use flyball_sdk::prelude::*;
use flyball_sdk::{Operator, Requirement};
use serde::Serialize;

use crate::pods::FINALIZER;
use crate::views::{BY_FINALIZER, BY_PHASE, Job, Pod, Presence};

/// The phases of pods that have not ended, in the order in which pods pass through them: a pod that
/// changes while they are read is found at least once.
const NOT_ENDED: [&str; 3] = ["Unknown", "Pending", "Running"];

impl Adoptable for Pod {
    fn facts(&self) -> Facts<'_, impl Labels> {
        self.meta.facts()
    }
}

/// Returns the job's pods after adopting and releasing, without the pods that have ended and are counted. With a pod
/// failure policy, all failed pods are included.
///
/// # Errors
/// A read or a write failed.
pub fn pods(host: &Host, job: &Job) -> Result<Vec<Pod>, Error> {
    let namespace = &job.meta.namespace;
    let own = own_pods(host, job)?;
    let orphans = host
        .list::<Pod>()
        .namespace(namespace)
        .orphans()
        .labels(&*job.selector)
        .all()?;
    let mut ownership = Ownership::of(&job.meta, &job.selector, own, orphans);
    // An adopted pod has the finalizer. Pods whose adoption failed are left out of the result.
    for pod in ownership
        .adopted
        .iter_mut()
        .filter(|pod| !pod.has_finalizer())
    {
        pod.meta.finalizers.push(FINALIZER.into());
    }
    // The cache may not show yet that the Job is being deleted, or that another one has its name: only a live read
    // after the list can tell (kubernetes/kubernetes#42639).
    let recheck = || {
        let live = host.live().get::<Presence>(namespace, &job.meta.name)?;
        may_adopt(&job.meta, live.as_ref().map(|live| &live.meta))
    };
    let owner = job.meta.controller_reference(Job::KIND);
    ownership.carry_out(
        host,
        &job.meta,
        "pod",
        recheck,
        |pod| adoption(pod, &owner),
        |pod| release(pod, &job.meta),
    )
}

/// Returns the pods that the job controls and that are not counted or no longer match its selector,
/// ordered by name.
fn own_pods(host: &Host, job: &Job) -> Result<Vec<Pod>, Error> {
    let list = || {
        host.list::<Pod>()
            .namespace(&job.meta.namespace)
            .controller(&job.meta.uid)
    };
    let mut pods = list().index(BY_FINALIZER, FINALIZER).all()?;
    // The policy fails a job for any failed pod, even for a counted one.
    let failed = job.pod_failure_policy.is_some().then_some("Failed");
    for phase in NOT_ENDED.into_iter().chain(failed) {
        pods.extend(list().index(BY_PHASE, phase).all()?);
    }
    for others in opposites(&job.selector) {
        pods.extend(list().labels(&others).all()?);
    }
    // The sort is stable, so that the first of several reads of a pod is kept.
    pods.sort_by(|one, other| one.meta.name.cmp(&other.meta.name));
    pods.dedup_by(|later, first| later.meta.uid == first.meta.uid);
    Ok(pods)
}

/// Returns selectors such that each object that `selector` doesn't match is matched by at least one of them.
fn opposites(selector: &LabelSelector) -> Vec<LabelSelector> {
    if selector.is_nothing() {
        return vec![LabelSelector::everything()];
    }
    let opposite = |requirement: &Requirement| Requirement {
        operator: match requirement.operator {
            Operator::In => Operator::NotIn,
            Operator::NotIn => Operator::In,
            Operator::Exists => Operator::DoesNotExist,
            Operator::DoesNotExist => Operator::Exists,
        },
        ..requirement.clone()
    };
    let requirements = selector.requirements().iter().map(opposite);
    requirements
        .map(|requirement| {
            LabelSelector::new([requirement]).expect("the selector's own keys and values are valid")
        })
        .collect()
}

/// The patch that adds the job's controller reference and the finalizer to a pod.
pub fn adoption(pod: &Pod, owner: &OwnerReference) -> Write {
    #[derive(Serialize)]
    struct Patch<'a> {
        metadata: Metadata<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        uid: &'a str,
        owner_references: [&'a OwnerReference; 1],
        finalizers: [&'a str; 1],
    }
    let metadata = Metadata {
        uid: &pod.meta.uid,
        owner_references: [owner],
        finalizers: [FINALIZER],
    };
    patch(&pod.meta, &Patch { metadata })
}

/// The patch that removes the job's owner reference and the finalizer from a pod.
pub fn release(pod: &Pod, job: &Meta) -> Write {
    let reference = json!({"$patch": "delete", "uid": job.uid});
    let metadata = json!({
        "uid": pod.meta.uid, "ownerReferences": [reference], "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    });
    patch(&pod.meta, &json!({"metadata": metadata}))
}

/// The patch that removes the finalizer from a pod.
pub fn remove_finalizer(pod: &Meta) -> Write {
    patch(
        pod,
        &json!({"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}),
    )
}

fn patch(pod: &Meta, patch: &impl Serialize) -> Write {
    Write::patch(
        "v1/Pod",
        &pod.namespace,
        &pod.name,
        PatchType::Strategic,
        patch,
    )
}
