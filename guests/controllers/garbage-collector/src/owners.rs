//! Determines the state of an object's owners.
//!
//! Upstream: pkg/controller/garbagecollector/garbagecollector.go: isDangling, classifyReferences.
//! Upstream: pkg/controller/garbagecollector/operations.go: apiResource, resourceDefaultNamespace, getObject.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{Kind, Reference};
use serde::Deserialize;

use crate::node::{self, Node, Scope};

/// How long the absence of an owner is remembered. It is final, because UIDs are not reused.
const ABSENT_FOR: Duration = Duration::from_secs(600);
/// How long the scope of a kind is remembered.
const SCOPE_FOR: Duration = Duration::from_secs(30);

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The owner exists and does not wait for its dependents.
    Solid,
    /// The owner does not exist.
    Dangling,
    /// The owner is being deleted and waits for its dependents.
    Waiting,
    /// The owner is namespaced and its dependent is cluster-scoped, which is invalid.
    Misplaced,
}

/// The owners of an object by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The UIDs of owners that exist and do not wait.
    pub solid: Vec<String>,
    /// The UIDs of owners that do not exist.
    pub dangling: Vec<String>,
    /// The UIDs of owners that wait for their dependents.
    pub waiting: Vec<String>,
}

/// Sorts the owners of an object by state; `None` if one of them is misplaced, so that nothing can
/// be decided about the object.
///
/// # Errors
/// The state of an owner can't be determined, so the object must not be deleted.
pub fn sort(host: &Host, object: &Node) -> Result<Option<Owners>, Error> {
    let mut owners = Owners::default();
    for owner in &object.metadata.owner_references {
        let named = Reference {
            kind: Kind::of_object(&owner.api_version, &owner.kind),
            namespace: object.metadata.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        };
        let list = match look_up(host, named)? {
            Owner::Misplaced => return Ok(None),
            Owner::Solid => &mut owners.solid,
            Owner::Dangling => &mut owners.dangling,
            Owner::Waiting => &mut owners.waiting,
        };
        list.push(owner.uid.clone());
    }
    Ok(Some(owners))
}

/// Returns the state of an owner that a dependent refers to in its own namespace, from the cache or
/// with a live read.
///
/// # Errors
/// The API server did not respond or does not serve the kind, so the state is unknown.
pub fn look_up(host: &Host, mut named: Reference) -> Result<Owner, Error> {
    let cached = node::cached(host, &named.uid)?;
    let everywhere = Reference {
        namespace: String::new(),
        ..named.clone()
    };
    if let Some(cached) = cached.filter(|cached| cached.is(&named) || cached.is(&everywhere)) {
        if cached.kind().version != named.kind.version {
            // Another version means the same owner, if there is such a version.
            scope(host, &named.kind)?;
        }
        return Ok(state(&cached.metadata));
    }
    if host.deletion_observed(&named) || host.deletion_observed(&everywhere) {
        return Ok(Owner::Dangling);
    }
    // A cluster-scoped object may refer to a namespaced owner by mistake (kubernetes/kubernetes#98040).
    match scope(host, &named.kind)? {
        Scope::Cluster => named = everywhere,
        Scope::Namespaced if named.namespace.is_empty() => return Ok(Owner::Misplaced),
        Scope::Namespaced => {}
    }
    let absent = format!("absent/{named}");
    if host.memo().get::<bool>(&absent).is_some() {
        return Ok(Owner::Dangling);
    }
    match live(host, &named)? {
        Some(owner) if owner.uid == named.uid => Ok(state(&owner)),
        _ => {
            // The memo is only an optimization: without it, the owner is read again.
            let _ = host.memo().put(&absent, &true, "", ABSENT_FOR);
            Ok(Owner::Dangling)
        }
    }
}

fn state(owner: &Meta) -> Owner {
    if node::waits_for_dependents(owner) {
        Owner::Waiting
    } else {
        Owner::Solid
    }
}

/// Reads the metadata of the object with this name live.
///
/// # Errors
/// The API server did not respond or does not serve the kind.
pub fn live(host: &Host, named: &Reference) -> Result<Option<Meta>, Error> {
    #[derive(Deserialize)]
    struct Live {
        metadata: Meta,
    }
    let kind = named.kind.to_string();
    let found = host
        .live()
        .get_of::<Live>(&kind, &named.namespace, &named.name, Node::FIELDS)?;
    Ok(found.map(|live| live.metadata))
}

/// Returns the scope of a kind.
///
/// # Errors
/// The API server did not respond or does not serve the kind.
fn scope(host: &Host, kind: &Kind) -> Result<Scope, Error> {
    let key = format!("scope/{kind}");
    if let Some(known) = host.memo().get(&key) {
        return Ok(known);
    }
    let name = kind.to_string();
    let discovered = host.kinds()?;
    let Some(served) = discovered.kinds.iter().find(|served| served.kind == name) else {
        return Err(Error::failed(format!(
            "the API server serves no {kind}: objects owned by one are kept until it does"
        )));
    };
    let scope = if served.namespaced {
        Scope::Namespaced
    } else {
        Scope::Cluster
    };
    let _ = host.memo().put(&key, &scope, "", SCOPE_FOR);
    Ok(scope)
}
