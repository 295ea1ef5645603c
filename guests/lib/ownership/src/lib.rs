//! An owner adopts the orphans that its selector matches, and releases the objects that it controls
//! and that no longer match: `PodControllerRefManager` and its siblings in kube-controller-manager
//! (`pkg/controller/controller_ref_manager.go`).

use std::collections::HashSet;

use flyball_sdk::prelude::*;
use serde::Serialize;

/// An object that can be adopted.
pub trait Adoptable {
    /// The properties of the object that its ownership depends on.
    fn facts(&self) -> Facts<'_, impl Labels>;

    /// Takes over the fields that its adoption returned; by default none.
    ///
    /// # Errors
    /// The fields can't be parsed.
    fn set_adopted(&mut self, answer: &Answer) -> Result<(), Error> {
        let _ = answer;
        Ok(())
    }
}

/// The properties of an object that its ownership depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a, L> {
    /// The name. The namespace is the owner's.
    pub name: &'a str,
    pub uid: &'a str,
    pub labels: &'a L,
    /// Whether the object can be adopted: it has no controller and is not being deleted.
    pub is_free: bool,
}

impl Adoptable for Meta {
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

/// The objects of an owner, by their next change.
#[derive(Clone, Debug)]
pub struct Ownership<T> {
    /// Objects that the owner controls and its selector matches.
    pub kept: Vec<T>,
    /// Orphans to adopt.
    pub adopted: Vec<T>,
    /// Objects that the owner controls, to be released.
    pub released: Vec<T>,
}

impl<T: Adoptable> Ownership<T> {
    /// Sorts objects: `own` are controlled by the owner, `orphans` have no controller. An owner
    /// that is being deleted adopts and releases nothing. Objects that are being deleted are not
    /// adopted.
    pub fn of(owner: &Meta, selector: &LabelSelector, own: Vec<T>, orphans: Vec<T>) -> Self {
        let is_selected = |one: &T| selector.matches(one.facts().labels);
        let (kept, mut released): (Vec<_>, Vec<_>) = own.into_iter().partition(is_selected);
        // The two lists are read at different times: an object that lost its controller in between
        // is in both.
        let mut adopted: Vec<_> = orphans
            .into_iter()
            .filter(|one| is_selected(one) && one.facts().is_free)
            .collect();
        if !adopted.is_empty() {
            let own: HashSet<&str> = kept
                .iter()
                .chain(&released)
                .map(|own| own.facts().uid)
                .collect();
            adopted.retain(|one| !own.contains(one.facts().uid));
        }
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

    /// Adopts and releases, and returns the objects that `owner` owns now. `noun` is the objects' name in error
    /// messages. `recheck` checks with a live read whether the owner [`may_adopt`]; it is called at most once.
    ///
    /// # Errors
    /// The owner may not adopt, or a write failed. All other writes were carried out.
    pub fn carry_out(
        mut self,
        host: &Host,
        owner: &Meta,
        noun: &str,
        recheck: impl FnOnce() -> Result<(), Error>,
        adoption: impl Fn(&T) -> Write,
        release: impl Fn(&T) -> Write,
    ) -> Result<Vec<T>, Error> {
        let not_allowed = match self.adopted.is_empty() {
            true => None,
            false => recheck()
                .doing(|| format!("adopting {} {noun}s", self.adopted.len()))
                .err(),
        };
        if not_allowed.is_some() {
            self.adopted.clear();
        }
        let adoptions = self.adopted.into_iter().map(|one| {
            let adoption = adoption(&one);
            (Change::Adoption(one), adoption)
        });
        let releases = self.released.into_iter().map(|one| {
            let release = release(&one);
            (Change::Release(one), release)
        });
        let batch = host.tagged_batch().extend(adoptions.chain(releases));
        let settled = settle(self.kept, &owner.namespace, noun, batch.run());
        match (not_allowed, settled) {
            (None, settled) => settled,
            (Some(not_allowed), settled) => {
                Err(Error::join([not_allowed].into_iter().chain(settled.err()))
                    .expect("there is at least one error"))
            }
        }
    }
}

/// A change of the owner of an object.
#[derive(Clone, Debug)]
pub enum Change<T> {
    Adoption(T),
    Release(T),
}

/// Returns the objects that the owner owns now, given the kept objects and the results of the changes.
///
/// # Errors
/// Writes that failed, except for objects that no longer exist.
pub fn settle<T: Adoptable>(
    mut kept: Vec<T>,
    namespace: &str,
    noun: &str,
    results: impl IntoIterator<Item = (Change<T>, Result<Answer, ApiError>)>,
) -> Result<Vec<T>, Error> {
    let mut errors = Vec::new();
    let failure = |what: &str, one: &T, error: ApiError| {
        Error::Doing(
            format!("{what} {noun} {}", Key::new(namespace, one.facts().name)),
            Box::new(error.into()),
        )
    };
    for (change, result) in results {
        match (change, result) {
            (Change::Adoption(mut one), Ok(answer)) => {
                errors.extend(one.set_adopted(&answer).err());
                kept.push(one);
            }
            (Change::Release(_), Ok(_)) => {}
            (_, Err(error)) if error.is_not_found() => {}
            (Change::Adoption(one), Err(error)) => errors.push(failure("adopting", &one, error)),
            // 422: the object has no owner any more, or its name now belongs to another object.
            (Change::Release(_), Err(error)) if error.status == 422 => {}
            (Change::Release(one), Err(error)) => errors.push(failure("releasing", &one, error)),
        }
    }
    Error::join(errors).map_or(Ok(kept), Err)
}

/// Whether an owner may adopt: a live read must show that it still exists and is not being deleted.
/// Otherwise objects could be given to an owner whose dependents were already processed for its
/// deletion.
///
/// # Errors
/// The owner was deleted, replaced or is being deleted.
pub fn may_adopt(owner: &Meta, live: Option<&Meta>) -> Result<(), Error> {
    let key = owner.key();
    match live {
        None => Err(Error::failed(format!("{key} was deleted"))),
        Some(live) if live.uid != owner.uid => Err(Error::failed(format!(
            "{key} was deleted, and another object has its name"
        ))),
        Some(live) if live.is_deleting() => Err(Error::failed(format!("{key} is being deleted"))),
        Some(_) => Ok(()),
    }
}

/// The patch that makes an owner the controller of an object in its namespace. It fails if the
/// object has another controller, or if the name belongs to another object.
pub fn adoption(
    kind: &str,
    namespace: &str,
    object: &impl Adoptable,
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

/// The patch that removes an owner's reference from an object. It fails if the name belongs to
/// another object.
pub fn release(kind: &str, object: &impl Adoptable, owner: &Meta) -> Write {
    let reference = json!({"$patch": "delete", "uid": owner.uid});
    let released = json!({"metadata": {"uid": object.facts().uid, "ownerReferences": [reference]}});
    patch(kind, &owner.namespace, object, &released)
}

fn patch(kind: &str, namespace: &str, object: &impl Adoptable, patch: &impl Serialize) -> Write {
    Write::patch(
        kind,
        namespace,
        object.facts().name,
        PatchType::Strategic,
        patch,
    )
}
