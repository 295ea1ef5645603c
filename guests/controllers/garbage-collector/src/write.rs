//! Changes one object. Each change is a JSON patch that tests the entries it removes (owners by
//! UID, finalizers by name). So it neither overwrites another client's changes nor fails because of
//! unrelated ones. If a test fails, the change is retried on the current object.
//!
//! Upstream: pkg/controller/garbagecollector/operations.go: deleteObject, patchObject, removeFinalizer.
//! Upstream: pkg/controller/garbagecollector/patch.go: patch, deleteOwnerRefJSONMergePatch,
//! unblockOwnerReferencesStrategicMergePatch, unblockOwnerReferencesJSONMergePatch.

use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::node::Node;
use crate::owners::live;

/// Maximum number of attempts to change an object.
const TRIES: usize = 5;
/// Delay before an object is checked again whose owners changed while it was to be deleted.
const OWNERS_CHANGED: Duration = Duration::from_millis(100);

/// The operations of a JSON patch.
type Steps = Vec<Value>;

/// Deletes an object if it is unchanged, or at least its owners are.
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
        result => return ignore_not_found(result),
    }
    match current(host, object)? {
        Some(now) if now.metadata.owner_references == *owner_references => {
            ignore_not_found(host.write(delete()))
        }
        Some(_) => Ok(Outcome::RequeueAfter(OWNERS_CHANGED)),
        None => Ok(Outcome::Done),
    }
}

fn ignore_not_found(result: Result<Answer, ApiError>) -> Result<Outcome, Error> {
    match result {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Outcome::Done),
    }
}

/// Removes owners from an object.
pub fn remove_owners(host: &Host, object: &Node, owners: &[String]) -> Result<(), Error> {
    change(host, object, |meta| removal_of_owners(meta, owners)).map(drop)
}

/// Removes an owner from many objects.
pub fn orphan_all(host: &Host, objects: &[Node], owner: &str) -> Result<(), Error> {
    let owner = [owner.to_owned()];
    let first = objects.iter().map(|object| {
        let steps = removal_of_owners(&object.metadata, &owner);
        (object, patch(object, &steps))
    });
    let mut errors = Vec::new();
    for (object, result) in host.tagged_batch().extend(first).run() {
        let result = match result {
            Err(error) if has_changed(&error) => match current(host, object)? {
                Some(now) => {
                    let steps = |node: &Node| removal_of_owners(&node.metadata, &owner);
                    if is_refusal(&error, &steps(object), &steps(&now)) {
                        Err(error.into())
                    } else {
                        remove_owners(host, &now, &owner)
                    }
                }
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

/// Sets `blockOwnerDeletion` to false in all owner references of an object. Returns the changed
/// object.
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

/// Removes a finalizer from an object.
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

/// Returns the operations that remove these owners, last entry first, so that the indexes stay
/// valid.
fn removal_of_owners(meta: &Meta, owners: &[String]) -> Steps {
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

/// A JSON patch that tests the object's UID first.
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

/// Reads the object live; `None` if it was deleted or replaced.
fn current(host: &Host, object: &Node) -> Result<Option<Node>, Error> {
    let now = live(host, &object.reference())?.filter(|now| now.uid == object.metadata.uid);
    Ok(now.map(|metadata| Node {
        metadata,
        ..object.clone()
    }))
}

/// Whether the object may have changed since it was read. An admission policy refuses with the same status as a test of
/// a patch: see [`is_refusal`].
fn has_changed(error: &ApiError) -> bool {
    error.status == 422 || error.is_conflict()
}

/// Whether the patch was refused for another reason than a change of the object: the patch for the current object would
/// be the same.
fn is_refusal(error: &ApiError, before: &Steps, now: &Steps) -> bool {
    error.status == 422 && before == now
}

/// Changes an object, starting from its cached state and then from its current state. `None` if it
/// was deleted or needs no change any more.
fn change(
    host: &Host,
    object: &Node,
    steps_of: impl Fn(&Meta) -> Steps,
) -> Result<Option<Meta>, Error> {
    #[derive(Deserialize)]
    struct Changed {
        metadata: Meta,
    }
    let mut known = object.clone();
    for left in (0..TRIES).rev() {
        let steps = steps_of(&known.metadata);
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
            Err(error) => match current(host, object)? {
                Some(now) if is_refusal(&error, &steps, &steps_of(&now.metadata)) => {
                    return Err(error.into());
                }
                Some(now) => known = now,
                None => return Ok(None),
            },
        }
    }
    unreachable!("the last attempt returns")
}
