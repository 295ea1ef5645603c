//! Which pods are a Job's own: those that it controls and selects. Orphans that it selects are adopted; pods that it
//! controls and no longer selects are released. With the owner comes and goes the finalizer.

use flyball_sdk::prelude::*;
use serde::Serialize;

use crate::pods::FINALIZER;
use crate::views::{Job, Pod, Presence};

/// What becomes of pods.
#[derive(Debug, Default)]
pub struct Claims {
    /// Its own, and they stay so.
    pub kept: Vec<Pod>,
    /// Orphans that it takes.
    pub adopted: Vec<Pod>,
    /// Its own, until now.
    pub released: Vec<Pod>,
}

/// The job's own pods, once it has adopted and released.
///
/// # Errors
/// A read or a write failed.
pub fn claim(host: &Host, job: &Job) -> Result<Vec<Pod>, Error> {
    let namespace = &job.meta.namespace;
    let own = host.list::<Pod>().namespace(namespace).controller(&job.meta.uid).all()?;
    let orphans = host.list::<Pod>().namespace(namespace).orphans().selector(&*job.selector).all()?;
    let mut claims = claims(job, own, orphans);

    // One uncached read, however many orphans there are.
    let refused = match claims.adopted.is_empty() {
        true => None,
        false => host
            .live_get::<Presence>(namespace, &job.meta.name)
            .and_then(|live| may_adopt(job, live))
            .doing(|| format!("adopting {} pods", claims.adopted.len()))
            .err(),
    };
    if refused.is_some() {
        claims.adopted.clear();
    }

    let owner = job.meta.controller_reference(Job::KIND);
    let adoptions = claims.adopted.iter().map(|pod| adoption(pod, &owner));
    let releases = claims.released.iter().map(|pod| release(pod, &job.meta));
    let answers = host.batch().extend(adoptions.chain(releases)).run();
    let settled = settle(claims, answers.into_iter().map(|answer| answer.map(drop)));
    match (refused, settled) {
        (None, settled) => settled,
        (Some(refused), settled) => Err(Error::join([refused].into_iter().chain(settled.err())).expect("there is one")),
    }
}

/// Says what becomes of pods: of `own`, which the job controls, and of `orphans`, which nobody controls. A job that is being
/// deleted takes and releases none, and a pod that is being deleted is not taken.
pub fn claims(job: &Job, own: Vec<Pod>, orphans: Vec<Pod>) -> Claims {
    let is_selected = |pod: &Pod| job.selector.matches(&pod.meta.labels);
    let (kept, mut released): (Vec<_>, Vec<_>) = own.into_iter().partition(is_selected);
    // The two lists are not of one moment: a pod that lost its controller between them is in both.
    let is_new = |pod: &Pod| !kept.iter().chain(&released).any(|own| own.meta.uid == pod.meta.uid);
    let can_be_taken = |pod: &Pod| is_selected(pod) && !pod.meta.is_deleting() && is_new(pod);
    let mut adopted: Vec<_> = orphans.into_iter().filter(can_be_taken).collect();
    if job.meta.is_deleting() {
        released.clear();
        adopted.clear();
    }
    Claims { kept, adopted, released }
}

/// Whether the job may adopt: it must still be there, not being deleted, by the API server's own word.
///
/// # Errors
/// Why not.
pub fn may_adopt(job: &Job, live: Option<Presence>) -> Result<(), Error> {
    let key = job.meta.key();
    match live {
        Some(live) if live.meta.uid != job.meta.uid => {
            Err(Error::failed(format!("{key} is gone: another has its name")))
        }
        Some(live) if live.meta.is_deleting() => Err(Error::failed(format!("{key} is being deleted"))),
        Some(_) => Ok(()),
        None => Err(Error::failed(format!("{key} is gone"))),
    }
}

/// The write that makes a job, by its owner reference, the controller of a pod.
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
    let metadata = Metadata { uid: &pod.meta.uid, owner_references: [owner], finalizers: [FINALIZER] };
    patch(&pod.meta, &Patch { metadata })
}

/// The write that frees a pod of the job.
pub fn release(pod: &Pod, job: &Meta) -> Write {
    let reference = json!({"$patch": "delete", "uid": job.uid});
    let metadata = json!({
        "uid": pod.meta.uid, "ownerReferences": [reference], "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    });
    patch(&pod.meta, &json!({"metadata": metadata}))
}

/// The write that takes the finalizer off a pod.
pub fn freeing(pod: &Meta) -> Write {
    patch(pod, &json!({"metadata": {"uid": pod.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}))
}

/// The pods that the job owns now, by the answers to its adoptions and then to its releases, in order.
///
/// # Errors
/// What was refused, but to pods that don't exist any more.
pub fn settle(claims: Claims, mut answers: impl Iterator<Item = Result<(), ApiError>>) -> Result<Vec<Pod>, Error> {
    let Claims { mut kept, adopted, released } = claims;
    let mut errors = Vec::new();
    for (mut pod, answer) in adopted.into_iter().zip(answers.by_ref()) {
        match answer {
            Ok(()) => {
                if !pod.is_held() {
                    pod.meta.finalizers.push(FINALIZER.into());
                }
                kept.push(pod);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => errors.push(refusal("adopting", &pod, error)),
        }
    }
    for (pod, answer) in released.iter().zip(answers) {
        match answer {
            Ok(()) => {}
            // 422: it has no owner any more, or is another pod.
            Err(error) if error.is_not_found() || error.status == 422 => {}
            Err(error) => errors.push(refusal("releasing", pod, error)),
        }
    }
    Error::join(errors).map_or(Ok(kept), Err)
}

fn refusal(what: &str, pod: &Pod, error: ApiError) -> Error {
    Err::<(), _>(error).doing(|| format!("{what} pod {}", pod.meta.key())).expect_err("it is an error")
}

fn patch(pod: &Meta, patch: &impl Serialize) -> Write {
    Write::patch("v1/Pod", &pod.namespace, &pod.name, PatchType::Strategic, patch)
}
