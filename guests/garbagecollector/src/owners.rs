//! What has become of an object's owners.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{Kind, Reference};
use serde::Deserialize;

use crate::node::{self, Node};

/// How long it is remembered that an owner does not exist. It won't come back: no UID is given
/// twice.
const ABSENT_FOR: Duration = Duration::from_secs(600);
/// How long it is remembered whether a kind's objects lie in namespaces.
const SCOPE_FOR: Duration = Duration::from_secs(30);

/// What has become of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It exists, and does not wait for its dependents.
    Solid,
    /// It does not exist.
    Dangling,
    /// It is being deleted, and waits for its dependents.
    Waiting,
    /// It would lie in a namespace, and its dependent lies in none: nobody can own in that way.
    Misplaced,
}

/// The owners of an object, by what has become of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The UIDs of those that exist and don't wait.
    pub solid: Vec<String>,
    /// The UIDs of those that don't exist.
    pub dangling: Vec<String>,
    /// The UIDs of those that wait for their dependents.
    pub waiting: Vec<String>,
}

/// Sorts the owners of an object; none if one of them is misplaced, so that nothing can be said of
/// the object.
///
/// # Errors
/// It can't be found out what has become of one: nothing may be deleted then.
pub fn sort(host: &Host, object: &Node) -> Result<Option<Owners>, Error> {
    let mut owners = Owners::default();
    for owner in &object.metadata.owner_references {
        let named = Reference {
            kind: Kind::of_object(&owner.api_version, &owner.kind),
            namespace: object.metadata.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        };
        let of_its_fate = match look_up(host, named)? {
            Owner::Misplaced => return Ok(None),
            Owner::Solid => &mut owners.solid,
            Owner::Dangling => &mut owners.dangling,
            Owner::Waiting => &mut owners.waiting,
        };
        of_its_fate.push(owner.uid.clone());
    }
    Ok(Some(owners))
}

/// What has become of an owner that a dependent names in its own namespace: the caches know, or
/// else the API server.
///
/// # Errors
/// The server gives no answer, or does not serve the kind: then nobody can say.
pub fn look_up(host: &Host, mut named: Reference) -> Result<Owner, Error> {
    let held = node::observed(host, &named.uid)?;
    let everywhere = Reference {
        namespace: String::new(),
        ..named.clone()
    };
    if let Some(held) = held.filter(|held| held.is(&named) || held.is(&everywhere)) {
        return Ok(fate(&held.metadata));
    }
    if host.deletion_observed(&named) || host.deletion_observed(&everywhere) {
        return Ok(Owner::Dangling);
    }
    if !is_namespaced(host, &named.kind)? {
        named = everywhere;
    } else if named.namespace.is_empty() {
        return Ok(Owner::Misplaced);
    }
    let absent = format!("absent/{named}");
    if host.memo().get::<bool>(&absent).is_some() {
        return Ok(Owner::Dangling);
    }
    match live(host, &named)? {
        Some(owner) if owner.uid == named.uid => Ok(fate(&owner)),
        _ => {
            // Only a saving: without room for it, the server is asked again.
            let _ = host.memo().put(&absent, &true, "", ABSENT_FOR);
            Ok(Owner::Dangling)
        }
    }
}

fn fate(owner: &Meta) -> Owner {
    if node::waits_for_dependents(owner) {
        Owner::Waiting
    } else {
        Owner::Solid
    }
}

/// The metadata of the object of this name, as it is now.
///
/// # Errors
/// The server gives no answer, or does not serve the kind.
pub fn live(host: &Host, named: &Reference) -> Result<Option<Meta>, Error> {
    #[derive(Deserialize)]
    struct Live {
        metadata: Meta,
    }
    let kind = named.kind.to_string();
    let found = host
        .reader()
        .get_of::<Live>(&kind, &named.namespace, &named.name, Node::FIELDS)?;
    Ok(found.map(|live| live.metadata))
}

/// Whether objects of this kind lie in namespaces.
fn is_namespaced(host: &Host, kind: &Kind) -> Result<bool, Error> {
    let key = format!("namespaced/{kind}");
    if let Some(known) = host.memo().get(&key) {
        return Ok(known);
    }
    let name = kind.to_string();
    let discovered = host.kinds()?;
    let Some(served) = discovered.kinds.iter().find(|served| served.kind == name) else {
        return Err(Error::failed(format!(
            "the API server serves no {kind}: what is owned by one waits until it does"
        )));
    };
    let _ = host.memo().put(&key, &served.namespaced, "", SCOPE_FOR);
    Ok(served.namespaced)
}
