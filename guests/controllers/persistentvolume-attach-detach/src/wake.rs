//! Wakes nodes: when a claim of their pods has been bound, when a driver changes, and periodically.
//!
//! Upstream: pkg/controller/volume/attachdetach/attach_detach_controller.go: enqueuePVC, syncPVCByKey.
//! Upstream: pkg/controller/volume/attachdetach/populator/desired_state_of_world_populator.go: populatorLoopFunc.
//! Upstream: pkg/controller/volume/common/common.go: PodPVCIndexFunc.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

use crate::key::Item;
use crate::memory::LastUse;
use crate::views::{Claim, Driver, Node, PersistentVolume, Pod};

/// The queue of claims.
pub const CLAIMS: &str = "pvcs";
/// The index of pods by the claims that they name.
pub const BY_CLAIM: &str = "claims";
/// The key of the memo with what the CSIDrivers required at the last look.
const DRIVERS: &str = "drivers";

/// The name of a node.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
struct Name {
    #[view(path = "metadata.name")]
    name: String,
}

/// Returns the keys of claims that have changed, or whose volumes have, and of nodes that have been deleted. What those
/// used is noted. The initial pods wake all nodes.
///
/// # Errors
/// An object is malformed, or the memo is full.
pub fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    let (mut claims, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    for delta in deltas.iter().filter(|delta| !delta.initial) {
        match delta.watch.as_str() {
            Claim::KIND => claims.extend(delta.after::<Claim>()?.map(|claim| claim.meta.key())),
            PersistentVolume::KIND => {
                let volume = delta.after::<PersistentVolume>()?;
                claims.extend(volume.and_then(|volume| volume.claim()));
            }
            Node::KIND => {
                if let Some(node) = delta.before::<Node>()? {
                    LastUse::note(host, &node)?;
                    nodes.insert(Item::Node(node.meta.name).key());
                }
            }
            other => return Err(Error::terminal(format!("unexpected change of {other}"))),
        }
    }
    let claims = claims.into_iter().map(|key| RoutedKey {
        queue: CLAIMS.into(),
        key,
        delay: Duration::ZERO,
    });
    let nodes = nodes.into_iter().map(RoutedKey::now);
    Ok(claims.chain(nodes).collect())
}

/// Wakes the nodes of the pods of a bound claim.
///
/// # Errors
/// A read failed, or the queue is full.
pub fn nodes_of_claim(host: &Host, key: &Key) -> Result<Outcome, Error> {
    let Some(claim) = host.get_by_key::<Claim>(key)?.filter(Claim::is_bound) else {
        return Ok(Outcome::Done);
    };
    let mut nodes = BTreeSet::new();
    let mut add = |pod: Pod| {
        if !pod.node.is_empty() && !pod.is_terminated() {
            nodes.insert(pod.node);
        }
    };
    let pods = host.list::<Pod>().namespace(&key.namespace);
    pods.index(BY_CLAIM, &key.name).each(|pod| {
        add(pod);
        Ok(())
    })?;
    // A pod owns the claims of its ephemeral volumes.
    let owner = claim
        .meta
        .controller()
        .filter(|owner| owner.is_of(Pod::KIND));
    if let Some(owner) = owner
        && let Some(pod) = host.get::<Pod>(&key.namespace, &owner.name)?
    {
        add(pod);
    }
    wake(host, nodes, Item::Node)
}

/// Wakes all nodes if the CSIDrivers require other things than at the last look.
///
/// # Errors
/// As [`nodes_of_claim`], or the memo is full.
pub fn nodes_of_drivers(host: &Host) -> Result<Outcome, Error> {
    let mut drivers = BTreeMap::new();
    host.list::<Driver>().each(|driver| {
        let requires = driver.requires_attachment();
        drivers.insert(driver.name, requires);
        Ok(())
    })?;
    let memo = host.memo();
    if memo.get(DRIVERS).as_ref() == Some(&drivers) {
        return Ok(Outcome::Done);
    }
    memo.put(DRIVERS, &drivers, "", Duration::ZERO)?;
    all_nodes(host, Item::Node)
}

/// Enqueues a key for each node.
///
/// # Errors
/// As [`nodes_of_claim`].
pub fn all_nodes(host: &Host, item: fn(String) -> Item) -> Result<Outcome, Error> {
    let mut nodes = BTreeSet::new();
    host.list::<Name>().each(|node| {
        nodes.insert(node.name);
        Ok(())
    })?;
    wake(host, nodes, item)
}

fn wake(host: &Host, nodes: BTreeSet<String>, item: fn(String) -> Item) -> Result<Outcome, Error> {
    for node in nodes {
        host.queue().add("", &item(node).key())?;
    }
    Ok(Outcome::Done)
}
