//! Pods on nodes that don't exist.
//!
//! A node that is missing from the cache is in quarantine for some time. If it is still missing then, a live read
//! decides.
//!
//! Upstream: pkg/controller/podgc/gc_controller.go: gcOrphaned, discoverDeletedNodes, checkIfNodeExists.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::QUARANTINE;
use crate::delete::{self, Reason};
use crate::views::{BY_NODE, Node, Pod};

/// Puts a node in quarantine if it is missing and pods are on it.
///
/// # Errors
/// A read failed.
pub fn check(host: &Host, node: &Key, quarantine: Duration) -> Result<Outcome, Error> {
    if host.get_by_key::<Node>(node)?.is_none() && has_pods(host, node)? {
        host.queue().add_after(QUARANTINE, node, quarantine)?;
    }
    Ok(Outcome::Done)
}

/// Deletes the pods of a node after its quarantine, unless it exists. While pods remain, it is reconciled again after
/// `retry_period`.
///
/// # Errors
/// A read or a deletion failed. All other pods were deleted.
pub fn collect(host: &Host, node: &Key, retry_period: Duration) -> Result<Outcome, Error> {
    if host.get_by_key::<Node>(node)?.is_some() {
        return Ok(Outcome::Done);
    }
    let live = host.live().get::<Node>("", &node.name);
    if live.doing(|| format!("reading node {node}"))?.is_none() {
        let pods = host.list::<Pod>().index(BY_NODE, &node.name).all()?;
        delete::by_force(host, Reason::Orphaned, &pods)?;
    }
    Ok(match has_pods(host, node)? {
        true => Outcome::RequeueAfter(retry_period),
        false => Outcome::Done,
    })
}

fn has_pods(host: &Host, node: &Key) -> Result<bool, Error> {
    let pods = host.list::<Pod>().index(BY_NODE, &node.name);
    Ok(pods.count()? > 0)
}
