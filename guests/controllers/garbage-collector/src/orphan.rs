//! Removes an owner that orphans its dependents from their owner references, and then removes its
//! finalizer.
//!
//! Upstream: pkg/controller/garbagecollector/garbagecollector.go: attemptToOrphanWorker, orphanDependents.

use std::time::Duration;

use flyball_sdk::Reference;
use flyball_sdk::prelude::*;

use crate::node::{self, Node};
use crate::{ORPHAN, PORTION, write};

/// Processes the object that a key refers to.
pub fn orphan(host: &Host, named: &Reference) -> Result<Outcome, Error> {
    let cached = node::cached(host, &named.uid)?;
    let Some(owner) = cached.filter(Node::orphans_dependents) else {
        return Ok(Outcome::Done);
    };
    let dependents = node::portion(host, &named.uid, 0)?;
    write::orphan_all(host, &dependents, &owner.metadata.uid)?;
    if dependents.len() == PORTION as usize {
        // There may be more, which are the first ones now.
        return Ok(Outcome::RequeueAfter(Duration::ZERO));
    }
    write::remove_finalizer(host, &owner, ORPHAN)?;
    Ok(Outcome::Done)
}
