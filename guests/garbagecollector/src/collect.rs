//! Decides on one object: whether it goes with its owners, or is an owner that waits or does not
//! exist.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{Key, Reference, info};

use crate::node::{self, Node};
use crate::owners::{self, Owner, Owners};
use crate::{FOREGROUND, ORPHAN, TO_DELETE, write};

/// How long until an owner that exists, but that no cache holds, is looked at again: at first,
/// doubled each time, at most.
const UNWATCHED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// Looks at the object that a key names.
pub fn collect(host: &Host, named: &Reference) -> Result<Outcome, Error> {
    let held = node::observed(host, &named.uid)?;
    match held {
        Some(object) if object.is(named) => decide(host, &object),
        held => doubt(host, named, held.as_ref()),
    }
}

/// An object that the caches hold.
fn decide(host: &Host, object: &Node) -> Result<Outcome, Error> {
    if object.waits_for_dependents() {
        return let_wait(host, object);
    }
    if object.metadata.is_deleting() || object.metadata.owner_references.is_empty() {
        return Ok(Outcome::Done);
    }
    let Some(Owners {
        solid,
        dangling,
        waiting,
    }) = owners::sort(host, object)?
    else {
        return Ok(Outcome::Done);
    };
    let gone: Vec<String> = dangling
        .into_iter()
        .chain(waiting.iter().cloned())
        .collect();
    if !solid.is_empty() {
        // Owners that wait are left too, or they would wait for good.
        if !gone.is_empty() {
            write::disown(host, object, &gone)?;
        }
        return Ok(Outcome::Done);
    }
    let dependents = if waiting.is_empty() {
        Vec::new()
    } else {
        node::dependents(host, &object.metadata.uid)?
    };
    if dependents.is_empty() {
        return write::delete(host, object, policy(object));
    }
    if dependents.iter().any(Node::waits_for_dependents) {
        // It may be a circle, each waiting for the next.
        info!(
            host,
            "{} no longer holds up its owners, since a dependent of it waits too",
            object.reference()
        );
        let object = write::unblock(host, object)?;
        return write::delete(host, &object, Propagation::Foreground);
    }
    write::delete(host, object, Propagation::Foreground)
}

/// How an object goes: as its finalizers say that it would, else in the background.
fn policy(object: &Node) -> Propagation {
    if object.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if object.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

/// An owner that waits for its dependents: goes when none of them holds it up; else sees to it that
/// they go.
fn let_wait(host: &Host, owner: &Node) -> Result<Outcome, Error> {
    let uid = &owner.metadata.uid;
    let blocking: Vec<Node> = node::dependents(host, uid)?
        .into_iter()
        .filter(|dependent| dependent.blocks(uid))
        .collect();
    if blocking.is_empty() {
        write::remove_finalizer(host, owner, FOREGROUND)?;
    }
    enqueue(host, blocking.iter())
}

/// An owner that the caches don't hold as its dependents name it. If it does not exist there, they
/// are looked at.
fn doubt(host: &Host, named: &Reference, held: Option<&Node>) -> Result<Outcome, Error> {
    let mut dependents = node::dependents(host, &named.uid)?;
    dependents.retain(|dependent| dependent.names(named));
    if dependents.is_empty() {
        return Ok(Outcome::Done);
    }
    let elsewhere = held
        .map(|held| held.metadata.namespace.as_str())
        .filter(|namespace| !namespace.is_empty());
    if elsewhere.is_some_and(|namespace| namespace != named.namespace) {
        dependents
            .iter()
            .for_each(|dependent| warn(host, dependent, named));
    }
    match owners::look_up(host, named.clone())? {
        Owner::Dangling => enqueue(host, dependents.iter()),
        Owner::Misplaced => Ok(Outcome::Done),
        Owner::Solid | Owner::Waiting if held.is_some() => Ok(Outcome::Done),
        // Too new for the caches, or of a kind that can't be watched: of its end nobody would tell.
        Owner::Solid | Owner::Waiting => Ok(Outcome::RequeueAfter(patience(host, named))),
    }
}

/// How long an owner that no cache holds is left alone: longer each time.
fn patience(host: &Host, owner: &Reference) -> Duration {
    let (first, most) = UNWATCHED;
    let key = format!("unwatched/{owner}");
    let before: u32 = host.memo().get(&key).unwrap_or(0);
    // Only a saving: without room for it, the owner is looked at more often.
    let _ = host.memo().put(&key, &(before + 1), "", 2 * most);
    (first * 2_u32.saturating_pow(before.min(16))).min(most)
}

/// Has objects looked at that aren't going anyway.
fn enqueue<'a>(host: &Host, objects: impl Iterator<Item = &'a Node>) -> Result<Outcome, Error> {
    for object in objects.filter(|object| !object.metadata.is_deleting()) {
        host.queue()
            .add(TO_DELETE, &Key::from(&object.reference()))?;
    }
    Ok(Outcome::Done)
}

/// Tells that an object names an owner that lies in another namespace.
fn warn(host: &Host, dependent: &Node, named: &Reference) {
    let namespace = &dependent.metadata.namespace;
    let Reference {
        kind, name, uid, ..
    } = named;
    let owner = format!(
        "[{}/{}, namespace: {namespace}, name: {name}, uid: {uid}]",
        kind.api_version(),
        kind.kind
    );
    let about = dependent.metadata.reference(&dependent.kind().to_string());
    let message = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
    host.emit(Event::warning(&about, "OwnerRefInvalidNamespace", &message));
}
