//! Which pods are a set's own: those that it controls and selects. Orphans that it selects are adopted; pods that it
//! controls and no longer selects are released.

use flyball_sdk::serde_json::json;
use flyball_sdk::{ApiError, Context, Error, LabelSelector, Meta, OwnerReference, PatchType, Write};
use serde::Serialize;

use crate::views::{Pod, Presence, Set};

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

/// Says what becomes of active pods: of `own`, which the set controls, and of `orphans`, which nobody controls. A set that
/// is being deleted takes and releases none.
pub fn claims(set: &Set, selector: &LabelSelector, own: Vec<Pod>, orphans: Vec<Pod>) -> Claims {
    let is_selected = |pod: &Pod| selector.matches(&pod.meta.labels);
    let (kept, mut released): (Vec<_>, Vec<_>) = own.into_iter().partition(is_selected);
    // The two lists are not of one moment: a pod that lost its controller between them is in both.
    let is_new = |pod: &Pod| !kept.iter().chain(&released).any(|own| own.meta.uid == pod.meta.uid);
    let mut adopted: Vec<_> = orphans.into_iter().filter(|pod| is_selected(pod) && is_new(pod)).collect();
    if set.meta.is_deleting() {
        released.clear();
        adopted.clear();
    }
    Claims { kept, adopted, released }
}

/// How many of the pods that are being deleted are the set's own.
pub fn count_terminating(selector: &LabelSelector, own: &[Pod]) -> usize {
    own.iter().filter(|pod| pod.is_terminating() && selector.matches(&pod.meta.labels)).count()
}

/// Whether the set may adopt: it must still be there, not being deleted, by the API server's own word. Else a pod could be
/// given to a set whose deletion has already let its pods go.
///
/// # Errors
/// Why not.
pub fn may_adopt(set: &Set, live: Option<Presence>) -> Result<(), Error> {
    match live {
        None => Err(Error::failed(format!("{} is gone", set.meta.key()))),
        Some(live) if live.meta.uid != set.meta.uid => {
            Err(Error::failed(format!("{} is gone: another has its name", set.meta.key())))
        }
        Some(live) if live.meta.is_deleting() => Err(Error::failed(format!("{} is being deleted", set.meta.key()))),
        Some(_) => Ok(()),
    }
}

/// The write that makes a set, by its owner reference, the controller of a pod. It fails if another object controls it, or
/// has its name.
pub fn adoption(pod: &Pod, owner: &OwnerReference) -> Write {
    #[derive(Serialize)]
    struct Patch<'a> {
        metadata: Metadata<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        owner_references: [&'a OwnerReference; 1],
        uid: &'a str,
    }
    patch(pod, &Patch { metadata: Metadata { owner_references: [owner], uid: &pod.meta.uid } })
}

/// The write that frees a pod of the set. It fails if another pod has its name.
pub fn release(pod: &Pod, set: &Meta) -> Write {
    let reference = json!({"$patch": "delete", "uid": set.uid});
    patch(pod, &json!({"metadata": {"uid": pod.meta.uid, "ownerReferences": [reference]}}))
}

/// The pods that the set owns now, by the answers to its adoptions and then to its releases, in order.
///
/// # Errors
/// What was refused, but to pods that don't exist any more.
pub fn settle(claims: Claims, mut answers: impl Iterator<Item = Result<(), ApiError>>) -> Result<Vec<Pod>, Error> {
    let Claims { mut kept, adopted, released } = claims;
    let mut errors = Vec::new();
    for (pod, answer) in adopted.into_iter().zip(answers.by_ref()) {
        match answer {
            Ok(()) => kept.push(pod),
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

fn patch(pod: &Pod, patch: &impl Serialize) -> Write {
    Write::patch("v1/Pod", &pod.meta.namespace, &pod.meta.name, PatchType::Strategic, patch)
}
