//! Which objects are an owner's: those that it controls and selects. Orphans that it selects are
//! adopted; what it controls and no longer selects is released.

use flyball_types::{ApiError, LabelSelector, Labels};
use serde::Serialize;
use serde_json::json;

use crate::controller::Key;
use crate::error::{Context as _, Error};
use crate::host::Host;
use crate::meta::{Meta, OwnerReference};
use crate::write::{PatchType, Write};

/// An object that can be claimed.
pub trait Claimed {
    /// What a claim depends on.
    fn facts(&self) -> Facts<'_, impl Labels>;
}

/// What a claim on an object depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a, L> {
    /// Its name. It lies in its owner's namespace.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its labels.
    pub labels: &'a L,
    /// Whether it can be adopted: nobody controls it, and it is not being deleted.
    pub is_free: bool,
}

impl Claimed for Meta {
    fn facts(&self) -> Facts<'_, impl Labels> {
        let is_free = self.controller().is_none() && !self.is_deleting();
        Facts {
            name: &self.name,
            uid: &self.uid,
            labels: &self.labels,
            is_free,
        }
    }
}

/// What becomes of objects.
#[derive(Clone, Debug)]
pub struct Claims<T> {
    /// Its own, and they stay so.
    pub kept: Vec<T>,
    /// Orphans that it takes.
    pub adopted: Vec<T>,
    /// Its own, until now.
    pub released: Vec<T>,
}

impl<T: Claimed> Claims<T> {
    /// Says what becomes of objects: of `own`, which the owner controls, and of `orphans`, which
    /// nobody controls. An owner that is being deleted takes and releases none, and what is being
    /// deleted is not taken.
    pub fn of(owner: &Meta, selector: &LabelSelector, own: Vec<T>, orphans: Vec<T>) -> Self {
        let is_selected = |one: &T| selector.matches(one.facts().labels);
        let (kept, mut released): (Vec<_>, Vec<_>) = own.into_iter().partition(is_selected);
        // The two lists are not of one moment: what lost its controller between them is in both.
        let is_new = |one: &T| {
            !kept
                .iter()
                .chain(&released)
                .any(|own| own.facts().uid == one.facts().uid)
        };
        let mut adopted: Vec<_> = orphans
            .into_iter()
            .filter(|one| is_selected(one) && one.facts().is_free && is_new(one))
            .collect();
        if owner.is_deleting() {
            released.clear();
            adopted.clear();
        }
        Self {
            kept,
            adopted,
            released,
        }
    }

    /// Adopts and releases, and answers what `owner` owns now. `noun` is what errors call one of
    /// them; `recheck` asks the API server itself whether the owner [`may_adopt`], once, however
    /// many orphans there are.
    ///
    /// # Errors
    /// It may not adopt, or a write was refused. All that could be written was.
    pub fn carry_out(
        mut self,
        host: &Host,
        owner: &Meta,
        noun: &str,
        recheck: impl FnOnce() -> Result<(), Error>,
        adoption: impl Fn(&T) -> Write,
        release: impl Fn(&T) -> Write,
    ) -> Result<Vec<T>, Error> {
        let refused = match self.adopted.is_empty() {
            true => None,
            false => recheck()
                .doing(|| format!("adopting {} {noun}s", self.adopted.len()))
                .err(),
        };
        if refused.is_some() {
            self.adopted.clear();
        }
        let adoptions = self.adopted.iter().map(adoption);
        let releases = self.released.iter().map(release);
        let answers = host.batch().extend(adoptions.chain(releases)).run();
        let settled = self.settle(
            &owner.namespace,
            noun,
            answers.into_iter().map(|answer| answer.map(drop)),
        );
        match (refused, settled) {
            (None, settled) => settled,
            (Some(refused), settled) => {
                Err(Error::join([refused].into_iter().chain(settled.err())).expect("there is one"))
            }
        }
    }

    /// What the owner owns now, by the answers to its adoptions and then to its releases, in order.
    ///
    /// # Errors
    /// What was refused, but about what doesn't exist any more.
    pub fn settle(
        self,
        namespace: &str,
        noun: &str,
        mut answers: impl Iterator<Item = Result<(), ApiError>>,
    ) -> Result<Vec<T>, Error> {
        let Self {
            mut kept,
            adopted,
            released,
        } = self;
        let mut errors = Vec::new();
        let refusal = |what: &str, one: &T, error: ApiError| {
            Error::Doing(
                format!("{what} {noun} {}", Key::new(namespace, one.facts().name)),
                Box::new(error.into()),
            )
        };
        for (one, answer) in adopted.into_iter().zip(answers.by_ref()) {
            match answer {
                Ok(()) => kept.push(one),
                Err(error) if error.is_not_found() => {}
                Err(error) => errors.push(refusal("adopting", &one, error)),
            }
        }
        for (one, answer) in released.iter().zip(answers) {
            match answer {
                Ok(()) => {}
                // 422: it has no owner any more, or another has its name.
                Err(error) if error.is_not_found() || error.status == 422 => {}
                Err(error) => errors.push(refusal("releasing", one, error)),
            }
        }
        Error::join(errors).map_or(Ok(kept), Err)
    }
}

/// Whether an owner may adopt: it must still be there, not being deleted, by the API server's own
/// word. Else something could be given to an owner whose deletion has already let its own go.
///
/// # Errors
/// Why not.
pub fn may_adopt(owner: &Meta, live: Option<&Meta>) -> Result<(), Error> {
    let key = owner.key();
    match live {
        None => Err(Error::failed(format!("{key} is gone"))),
        Some(live) if live.uid != owner.uid => Err(Error::failed(format!(
            "{key} is gone: another has its name"
        ))),
        Some(live) if live.is_deleting() => Err(Error::failed(format!("{key} is being deleted"))),
        Some(_) => Ok(()),
    }
}

/// The write that makes an owner, by its reference, the controller of an object of its namespace.
/// It fails if another one controls it, or has its name.
pub fn adoption(
    kind: &str,
    namespace: &str,
    object: &impl Claimed,
    owner: &OwnerReference,
) -> Write {
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
    patch(
        kind,
        namespace,
        object,
        &Patch {
            metadata: Metadata {
                owner_references: [owner],
                uid: object.facts().uid,
            },
        },
    )
}

/// The write that frees an object of an owner. It fails if another one has its name.
pub fn release(kind: &str, object: &impl Claimed, owner: &Meta) -> Write {
    let reference = json!({"$patch": "delete", "uid": owner.uid});
    let freed = json!({"metadata": {"uid": object.facts().uid, "ownerReferences": [reference]}});
    patch(kind, &owner.namespace, object, &freed)
}

fn patch(kind: &str, namespace: &str, object: &impl Claimed, patch: &impl Serialize) -> Write {
    Write::patch(
        kind,
        namespace,
        object.facts().name,
        PatchType::Strategic,
        patch,
    )
}
