//! Registers nodes and keeps them alive: one node when it changes, and all nodes at each heartbeat.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

use crate::node::{self, LEASE, LEASES, Node};
use crate::settings::Settings;

/// The key for all nodes. It can't be a node's name, because those end in a number.
pub const ALL: &str = "all";
/// The field manager of the plugin's writes to pods and nodes. It replaces the host's default one.
pub const FIELD_MANAGER: &str = "fake-kubelet";

/// Registers missing nodes, renews the leases of the others, and corrects their taints and status.
///
/// # Errors
/// A write failed. All other writes were attempted.
pub fn reconcile(host: &Host, settings: &Settings, key: &Key) -> Result<Outcome, Error> {
    let (present, missing) = nodes(host, settings, key)?;
    let now = host.now();
    let mut errors = register(host, settings, &missing, now);
    errors.extend(renew(host, settings, &present, now));
    errors.extend(mend(host, settings, &present, now));
    Error::join(errors).map_or(Ok(Outcome::Done), Err)
}

/// Returns the nodes that the key refers to: the existing ones by number, and the numbers of the
/// missing ones.
fn nodes(
    host: &Host,
    settings: &Settings,
    key: &Key,
) -> Result<(BTreeMap<u32, Node>, Vec<u32>), Error> {
    if key.name != ALL {
        let Some(index) = settings.index_of(&key.name) else {
            return Ok((BTreeMap::new(), Vec::new()));
        };
        return Ok(match host.get::<Node>("", &key.name)? {
            Some(node) => (BTreeMap::from([(index, node)]), Vec::new()),
            None => (BTreeMap::new(), vec![index]),
        });
    }
    let all = host.list::<Node>().all()?.into_iter();
    let present: BTreeMap<u32, Node> = all
        .filter_map(|node| Some((settings.index_of(&node.meta.name)?, node)))
        .collect();
    let missing = (0..settings.nodes)
        .filter(|index| !present.contains_key(index))
        .collect();
    Ok((present, missing))
}

/// Creates nodes. They get their leases once they are in the cache.
fn register(host: &Host, settings: &Settings, missing: &[u32], now: Time) -> Vec<Error> {
    let creations = missing.iter().map(|&index| {
        Write::create(Node::KIND, "", &node::object(settings, index, now))
            .field_manager(FIELD_MANAGER)
    });
    let results = host.batch().extend(creations).run().into_iter();
    results
        .filter_map(Result::err)
        .filter(|error| !error.is_already_exists())
        .map(Error::from)
        .collect()
}

/// Renews the nodes' leases and creates missing ones.
fn renew(host: &Host, settings: &Settings, present: &BTreeMap<u32, Node>, now: Time) -> Vec<Error> {
    let lease = |node: &Node| node::lease(&node.meta, settings.heartbeat_period, now);
    let renewals = present.values().map(|node| {
        let renewal = Write::patch(
            LEASE,
            LEASES,
            &node.meta.name,
            PatchType::Merge,
            &lease(node),
        );
        (node, renewal)
    });
    let results = host.tagged_batch().extend(renewals).run();
    let (missing, errors): (Vec<_>, Vec<_>) = results
        .into_iter()
        .filter_map(|(node, result)| Some((node, result.err()?)))
        .partition(|(_, error)| error.is_not_found());
    let creations = missing
        .iter()
        .map(|(node, _)| Write::create(LEASE, LEASES, &lease(node)));
    let created = host.batch().extend(creations).run().into_iter();
    let errors = errors
        .into_iter()
        .map(|(_, error)| error)
        .chain(created.filter_map(Result::err));
    errors
        .filter(|error| !error.is_already_exists())
        .map(Error::from)
        .collect()
}

/// Removes the admission taint and writes stale statuses. A node that was deleted in the meantime
/// is enqueued by that change.
fn mend(host: &Host, settings: &Settings, present: &BTreeMap<u32, Node>, now: Time) -> Vec<Error> {
    let writes = present.iter().flat_map(|(&index, node)| {
        [untaint(settings, node), refresh(settings, index, node, now)]
            .into_iter()
            .flatten()
    });
    let results = host.batch().extend(writes).run().into_iter();
    results
        .filter_map(Result::err)
        .filter(|error| !error.is_not_found())
        .map(Error::from)
        .collect()
}

/// Returns the patch that removes the admission taint, if the node has it. The patch replaces the
/// whole list, so it requires an unchanged node.
fn untaint(settings: &Settings, node: &Node) -> Option<Write> {
    let left = node::without_not_ready(&node.taints).filter(|_| settings.remove_not_ready_taint)?;
    let patch = json!({"metadata": {"resourceVersion": node.meta.resource_version}, "spec": {"taints": left}});
    let patch = Write::patch(Node::KIND, "", &node.meta.name, PatchType::Merge, &patch);
    Some(patch.field_manager(FIELD_MANAGER))
}

/// Returns the patch of a stale status.
fn refresh(settings: &Settings, index: u32, node: &Node, now: Time) -> Option<Write> {
    node::is_stale(node, settings.status_period, now).then(|| {
        let patch = json!({"status": node::status(settings, index, &node.conditions, now)});
        Write::patch(
            Node::KIND,
            "",
            &node.meta.name,
            PatchType::Strategic,
            &patch,
        )
        .on("status")
        .field_manager(FIELD_MANAGER)
    })
}
