//! Changes one object. Each change tests what it takes away, so that neither a change by somebody
//! else is undone nor a write by somebody else that has nothing to do with it is in its way: owners
//! are told apart by their UIDs, finalizers by their names. What fails the test is tried again on
//! the object as it is now.

use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::node::Node;
use crate::owners::live;

/// How often a change is tried on the object as it is now.
const TRIES: usize = 5;
/// How long until an object is looked at again whose owners changed while it was to be deleted.
const OWNERS_CHANGED: Duration = Duration::from_millis(100);

/// A list of steps of a JSON patch.
type Steps = Vec<Value>;

/// Deletes an object, if it is still as it is known; or if nothing of its owners has changed since.
pub fn delete(host: &Host, object: &Node, policy: Propagation) -> Result<Outcome, Error> {
    let Meta {
        namespace,
        name,
        uid,
        resource_version,
        owner_references,
        ..
    } = &object.metadata;
    let kind = object.kind().to_string();
    let delete = || {
        Write::delete(&kind, namespace, name)
            .uid(uid)
            .propagation(policy)
    };
    match host.write(delete().resource_version(resource_version)) {
        Err(error) if error.is_conflict() => {}
        result => return gone(result),
    }
    match same(host, object)? {
        Some(now) if now.metadata.owner_references == *owner_references => {
            gone(host.write(delete()))
        }
        Some(_) => Ok(Outcome::RequeueAfter(OWNERS_CHANGED)),
        None => Ok(Outcome::Done),
    }
}

fn gone(result: Result<Answer, ApiError>) -> Result<Outcome, Error> {
    match result {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Outcome::Done),
    }
}

/// Takes owners away from an object.
pub fn disown(host: &Host, object: &Node, owners: &[String]) -> Result<(), Error> {
    change(host, object, |meta| disowning(meta, owners)).map(drop)
}

/// Takes an owner away from many objects.
pub fn disown_all(host: &Host, objects: &[Node], owner: &str) -> Result<(), Error> {
    let owner = [owner.to_owned()];
    let first = objects
        .iter()
        .map(|object| patch(object, &disowning(&object.metadata, &owner)));
    let results = host.batch().extend(first).run();
    let mut errors = Vec::new();
    for (object, result) in objects.iter().zip(results) {
        let result = match result {
            Err(error) if has_changed(&error) => match same(host, object)? {
                Some(now) => disown(host, &now, &owner),
                None => Ok(()),
            },
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        };
        errors.extend(
            result.err().map(|error| {
                Error::Doing(format!("orphaning {}", object.reference()), error.into())
            }),
        );
    }
    Error::join(errors).map_or(Ok(()), Err)
}

/// Lets an object hold up none of its owners; answers it as it is then.
pub fn unblock(host: &Host, object: &Node) -> Result<Node, Error> {
    let unblocking = |meta: &Meta| {
        let blocking = meta
            .owner_references
            .iter()
            .enumerate()
            .filter(|(_, owner)| owner.block_owner_deletion);
        blocking
            .flat_map(|(at, owner)| {
                let path = format!("/metadata/ownerReferences/{at}");
                let unblocked = json!({"op": "replace", "path": format!("{path}/blockOwnerDeletion"), "value": false});
                [test(format!("{path}/uid"), &owner.uid), unblocked]
            })
            .collect()
    };
    let metadata = change(host, object, unblocking)?.unwrap_or_else(|| object.metadata.clone());
    Ok(Node {
        metadata,
        ..object.clone()
    })
}

/// Takes a finalizer away from an object.
pub fn remove_finalizer(host: &Host, object: &Node, finalizer: &str) -> Result<(), Error> {
    let removing = |meta: &Meta| match meta.finalizers.iter().position(|own| own == finalizer) {
        Some(at) => {
            let path = format!("/metadata/finalizers/{at}");
            vec![
                test(path.clone(), finalizer),
                json!({"op": "remove", "path": path}),
            ]
        }
        None => Vec::new(),
    };
    change(host, object, removing).map(drop)
}

/// What takes these owners away: from the last to the first, so that places stay what they are.
fn disowning(meta: &Meta, owners: &[String]) -> Steps {
    let going = meta
        .owner_references
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, owner)| owners.contains(&owner.uid));
    going
        .flat_map(|(at, owner)| {
            let path = format!("/metadata/ownerReferences/{at}");
            [
                test(format!("{path}/uid"), &owner.uid),
                json!({"op": "remove", "path": path}),
            ]
        })
        .collect()
}

fn test(path: String, value: &str) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// A change of an object, if it is still the same one.
fn patch(object: &Node, steps: &[Value]) -> Write {
    let Meta {
        namespace,
        name,
        uid,
        ..
    } = &object.metadata;
    let is_same = test("/metadata/uid".into(), uid);
    let steps: Vec<&Value> = std::iter::once(&is_same).chain(steps).collect();
    Write::patch(
        &object.kind().to_string(),
        namespace,
        name,
        PatchType::Json,
        &steps,
    )
}

/// The object as it is now; none if it is gone, or another one has its name.
fn same(host: &Host, object: &Node) -> Result<Option<Node>, Error> {
    let now = live(host, &object.reference())?.filter(|now| now.uid == object.metadata.uid);
    Ok(now.map(|metadata| Node {
        metadata,
        ..object.clone()
    }))
}

/// Whether the object is not as it was thought to be.
fn has_changed(error: &ApiError) -> bool {
    error.status == 422 || error.is_conflict()
}

/// Changes an object as it is known, or else as it is now; none if it is gone or nothing of it
/// needs the change any more.
fn change(
    host: &Host,
    object: &Node,
    steps: impl Fn(&Meta) -> Steps,
) -> Result<Option<Meta>, Error> {
    #[derive(Deserialize)]
    struct Changed {
        metadata: Meta,
    }
    let mut known = object.clone();
    for left in (0..TRIES).rev() {
        let steps = steps(&known.metadata);
        if steps.is_empty() {
            return Ok(None);
        }
        match host.write(patch(&known, &steps).returning(&["metadata"])) {
            Ok(answer) => {
                return answer
                    .parse::<Changed>()
                    .map(|changed| Some(changed.metadata));
            }
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) if left == 0 || !has_changed(&error) => return Err(error.into()),
            Err(_) => {}
        }
        match same(host, object)? {
            Some(now) => known = now,
            None => return Ok(None),
        }
    }
    unreachable!("the last try returns")
}
