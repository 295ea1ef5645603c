//! Processes an object of the queue [`TO_DELETE`]: deletes it if its owners are deleted, and
//! handles owners that wait for their dependents or do not exist.
//!
//! Upstream: pkg/controller/garbagecollector/garbagecollector.go: attemptToDeleteWorker, attemptToDeleteItem,
//! processDeletingDependentsItem.
//! Upstream: pkg/controller/garbagecollector/graph_builder.go: enqueueVirtualDeleteEvent, processGraphChanges,
//! reportInvalidNamespaceOwnerRef, getAlternateOwnerIdentity.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{Key, ObjectReference, Reference, info};

use crate::node::{self, Node, Scope};
use crate::owners::{self, Owner, Owners};
use crate::{FOREGROUND, ORPHAN, PORTION, TO_DELETE, write};

/// Backoff for checking an existing owner that is not cached: initial and maximum; it doubles each
/// time.
const UNWATCHED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// The time between two portions of an owner's dependents.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the position of the next portion of an absent owner's dependents is remembered.
const PROGRESS_FOR: Duration = Duration::from_secs(60);

/// How long a warning about a dependent is remembered.
const WARNED_FOR: Duration = Duration::from_secs(3600);

/// Processes the object that a key refers to.
pub fn collect(host: &Host, named: &Reference) -> Result<Outcome, Error> {
    let cached = node::cached(host, &named.uid)?;
    match cached {
        Some(object) if object.is(named) => decide(host, &object),
        cached => check_absent_owner(host, named, cached.as_ref()),
    }
}

/// Processes a cached object.
fn decide(host: &Host, object: &Node) -> Result<Outcome, Error> {
    if object.waits_for_dependents() {
        return wait_for_dependents(host, object);
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
    let removed: Vec<String> = dangling
        .into_iter()
        .chain(waiting.iter().cloned())
        .collect();
    if !solid.is_empty() {
        // References to waiting owners are removed too: otherwise these would wait forever.
        if !removed.is_empty() {
            write::remove_owners(host, object, &removed)?;
        }
        return Ok(Outcome::Done);
    }
    if waiting.is_empty() {
        return write::delete(host, object, policy(object));
    }
    let mut has_dependents = false;
    let waits = node::find_dependent(host, &object.metadata.uid, |dependent| {
        has_dependents = true;
        dependent.waits_for_dependents().then_some(())
    })?;
    if !has_dependents {
        return write::delete(host, object, policy(object));
    }
    if waits.is_some() {
        // The owners may form a cycle, in which each waits for the next.
        info!(
            host,
            "{} no longer blocks the deletion of its owners, because one of its dependents waits as well",
            object.reference()
        );
        let object = write::unblock(host, object)?;
        return write::delete(host, &object, Propagation::Foreground);
    }
    write::delete(host, object, Propagation::Foreground)
}

/// The propagation policy for deleting an object: as its finalizers request, otherwise background.
fn policy(object: &Node) -> Propagation {
    if object.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if object.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

/// Processes an owner that waits for its dependents: removes its finalizer if no dependent blocks
/// it, otherwise enqueues these dependents, or the first [`PORTION`] of them.
///
/// Each of its dependents that is deleted enqueues the owner again. If there are more than a portion
/// of them, it is checked once in [`PAUSE`], since each check takes time in proportion to their
/// number.
fn wait_for_dependents(host: &Host, owner: &Node) -> Result<Outcome, Error> {
    let uid = &owner.metadata.uid;
    let pause = format!("waiting/{uid}");
    if host.memo().get::<bool>(&pause).is_some() {
        return Ok(Outcome::RequeueAfter(PAUSE));
    }
    let (mut seen, mut is_blocked, mut blocking) = (0, false, Vec::new());
    node::find_dependent(host, uid, |dependent| {
        seen += 1;
        if dependent.blocks(uid) {
            is_blocked = true;
            if !dependent.metadata.is_deleting() {
                blocking.push(dependent);
            }
        }
        (blocking.len() >= PORTION as usize).then_some(())
    })?;
    if !is_blocked {
        return release(host, owner);
    }
    enqueue(host, &blocking)?;
    if seen < PORTION {
        return Ok(Outcome::Done);
    }
    // The memo is only an optimization: without it, the owner is checked more often.
    let _ = host.memo().put(&pause, &true, uid, PAUSE);
    Ok(Outcome::RequeueAfter(PAUSE))
}

/// Removes the finalizer of an owner whose dependents are deleted. The cache has the owner for another moment, in which
/// the deletion of a dependent may enqueue it.
fn release(host: &Host, owner: &Node) -> Result<Outcome, Error> {
    let uid = &owner.metadata.uid;
    let released = format!("released/{uid}");
    if host.memo().get::<bool>(&released).is_some() {
        return Ok(Outcome::RequeueAfter(PAUSE));
    }
    write::remove_finalizer(host, owner, FOREGROUND)?;
    // The memo is only an optimization: without it, the API server may get a request for an absent object.
    let _ = host.memo().put(&released, &true, uid, PAUSE);
    Ok(Outcome::Done)
}

/// Processes an owner that is not cached as its dependents refer to it. If it does not exist, its
/// dependents are enqueued, a [`PORTION`] at a time.
fn check_absent_owner(
    host: &Host,
    named: &Reference,
    cached: Option<&Node>,
) -> Result<Outcome, Error> {
    let progress = format!("enqueued/{named}");
    let start: u32 = host.memo().get(&progress).unwrap_or(0);
    let mut dependents = node::portion(host, &named.uid, start)?;
    let is_last = dependents.len() < PORTION as usize;
    let scope = cached.map_or_else(|| supposed_scope(named), Node::scope);
    dependents.retain(|dependent| dependent.names(named, scope));
    if !dependents.is_empty() {
        let is_elsewhere = |cached: &Node| cached.metadata.namespace != named.namespace;
        if scope == Scope::Namespaced && cached.is_some_and(is_elsewhere) {
            dependents
                .iter()
                .for_each(|dependent| warn(host, dependent, named));
        }
        match owners::look_up(host, named.clone())? {
            Owner::Dangling => enqueue(host, &dependents)?,
            Owner::Misplaced => return Ok(Outcome::Done),
            Owner::Solid | Owner::Waiting if cached.is_some() => return Ok(Outcome::Done),
            // The owner is too new for the cache, or its kind can't be watched, so its deletion would not be observed.
            Owner::Solid | Owner::Waiting => {
                return Ok(Outcome::RequeueAfter(recheck_delay(host, named)));
            }
        }
    }
    if start == 0 && is_last {
        return Ok(Outcome::Done);
    }
    // Earlier portions were read from an older list. Deletions since then have shifted other dependents into those
    // positions. So the work ends only when one portion contains all remaining dependents.
    let next = if is_last { 0 } else { start + PORTION };
    // The memo is only an optimization: without it, the first portion is enqueued until it is deleted.
    let _ = host.memo().put(&progress, &next, "", PROGRESS_FOR);
    Ok(Outcome::RequeueAfter(PAUSE))
}

/// Returns the scope of an owner that is not cached, according to its dependents' references. If a cluster-scoped
/// object refers to a namespaced owner, [`owners::look_up`] notices.
fn supposed_scope(named: &Reference) -> Scope {
    match named.namespace.as_str() {
        "" => Scope::Cluster,
        _ => Scope::Namespaced,
    }
}

/// Backoff before an owner that is not cached is checked again.
fn recheck_delay(host: &Host, owner: &Reference) -> Duration {
    let (first, most) = UNWATCHED;
    let key = format!("unwatched/{owner}");
    let before: u32 = host.memo().get(&key).unwrap_or(0);
    // The memo is only an optimization: without it, the owner is checked more often.
    let _ = host.memo().put(&key, &(before + 1), "", 2 * most);
    (first * 2_u32.saturating_pow(before.min(16))).min(most)
}

/// Enqueues objects that are not being deleted yet.
fn enqueue(host: &Host, objects: &[Node]) -> Result<(), Error> {
    for object in objects
        .iter()
        .filter(|object| !object.metadata.is_deleting())
    {
        host.queue()
            .add(TO_DELETE, &Key::from(&object.reference()))?;
    }
    Ok(())
}

/// Emits an event about an owner reference to an object in another namespace, once for each dependent: other dependents
/// of the owner, and retries, come here again.
fn warn(host: &Host, dependent: &Node, named: &Reference) {
    let Meta { namespace, uid, .. } = &dependent.metadata;
    let warned = format!("warned/{uid}/{}", named.uid);
    if host.memo().get::<bool>(&warned).is_some() {
        return;
    }
    // The memo is only an optimization: without it, the event is repeated.
    let _ = host.memo().put(&warned, &true, uid, WARNED_FOR);
    let Reference {
        kind, name, uid, ..
    } = named;
    let owner = format!(
        "[{}/{}, namespace: {namespace}, name: {name}, uid: {uid}]",
        kind.api_version(),
        kind.kind
    );
    // Like kube-controller-manager's event, this one doesn't contain the object's resource version.
    let about = ObjectReference {
        resource_version: String::new(),
        ..dependent.metadata.reference(&dependent.kind().to_string())
    };
    let message = format!("ownerRef {owner} does not exist in namespace {namespace:?}");
    host.emit(Event::warning(&about, "OwnerRefInvalidNamespace", &message));
}
