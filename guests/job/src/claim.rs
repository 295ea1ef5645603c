//! Claims a Job's pods. Orphans that match its selector are adopted; pods that it controls and that
//! no longer match are released. Adoption adds the finalizer and release removes it.

use flyball_sdk::claim::{Claimed, Claims, Facts, may_adopt};
use flyball_sdk::prelude::*;
use serde::Serialize;

use crate::pods::FINALIZER;
use crate::views::{Job, Pod, Presence};

impl Claimed for Pod {
    fn facts(&self) -> Facts<'_, impl Labels> {
        self.meta.facts()
    }
}

/// Returns the job's pods after adopting and releasing.
///
/// # Errors
/// A read or a write failed.
pub fn claim(host: &Host, job: &Job) -> Result<Vec<Pod>, Error> {
    let namespace = &job.meta.namespace;
    let own = host
        .list::<Pod>()
        .namespace(namespace)
        .controller(&job.meta.uid)
        .all()?;
    let orphans = host
        .list::<Pod>()
        .namespace(namespace)
        .orphans()
        .labels(&*job.selector)
        .all()?;
    let mut claims = Claims::of(&job.meta, &job.selector, own, orphans);
    // An adopted pod has the finalizer. Pods whose adoption failed are left out of the result.
    for pod in claims.adopted.iter_mut().filter(|pod| !pod.has_finalizer()) {
        pod.meta.finalizers.push(FINALIZER.into());
    }
    let recheck = || {
        let live = host.reader().get::<Presence>(namespace, &job.meta.name)?;
        may_adopt(&job.meta, live.as_ref().map(|live| &live.meta))
    };
    let owner = job.meta.controller_reference(Job::KIND);
    claims.carry_out(
        host,
        &job.meta,
        "pod",
        recheck,
        |pod| adoption(pod, &owner),
        |pod| release(pod, &job.meta),
    )
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
