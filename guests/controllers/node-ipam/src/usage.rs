//! Counts the used blocks, and wakes the nodes that wait for one.
//!
//! Upstream: pkg/controller/nodeipam/ipam/range_allocator.go: ReleaseCIDR.

use std::time::Duration;

use flyball_sdk::prelude::*;

use crate::NODES;
use crate::blocks::Blocks;
use crate::settings::Settings;
use crate::used::Used;
use crate::views::Row;

/// The counter of blocks that came into use.
pub const ALLOCATIONS: &str = "node_ipam_controller_cidrset_cidrs_allocations_total";
/// The counter of blocks that are no longer used.
pub const RELEASES: &str = "node_ipam_controller_cidrset_cidrs_releases_total";
/// The number of blocks. kube-controller-manager has the same misspelling.
pub const MAX: &str = "node_ipam_controller_cirdset_max_cidrs";
/// The fraction of blocks that are used.
pub const USAGE: &str = "node_ipam_controller_cidrset_usage_cidrs";

/// The memo's key of the blocks that were used at the last time.
const COUNTED: &str = "counted";
/// The memo's key that says that nodes wait for a block.
const WAITING: &str = "waiting";

/// Notes that a node waits for a block.
///
/// # Errors
/// The memo is full.
pub fn wait(host: &Host) -> Result<(), Error> {
    Ok(host.memo().put(WAITING, &true, "", Duration::ZERO)?)
}

/// Updates the metrics. Enqueues the nodes without ranges if blocks have become free.
///
/// # Errors
/// The nodes can't be read, or the memo or the queue is full.
pub fn count(host: &Host, settings: &Settings) -> Result<(), Error> {
    let nodes = host.list::<Row>().all()?;
    let used = Used::of(settings, &nodes);
    let memo = host.memo();
    let mut before: Vec<Blocks> = memo.get(COUNTED).unwrap_or_default();
    before.resize(settings.sets.len(), Blocks::default());
    let mut has_free = true;
    for (set, (used, before)) in settings.sets.iter().zip(used.0.iter().zip(&before)) {
        let label = set.label();
        let (label, metrics) = (&[label.as_str()], host.metrics());
        metrics.set(MAX, label, set.max() as f64);
        metrics.set(USAGE, label, used.count() as f64 / set.max() as f64);
        for (counter, change) in [
            (ALLOCATIONS, used.count_without(before)),
            (RELEASES, before.count_without(used)),
        ] {
            if change > 0 {
                metrics.add(counter, label, change as f64);
            }
        }
        has_free = has_free && used.count() < set.max();
    }
    if used.0 != before {
        memo.put(COUNTED, &used.0, "", Duration::ZERO)?;
    }
    if has_free && memo.get::<bool>(WAITING).is_some() {
        memo.remove(WAITING);
        for node in nodes.iter().filter(|node| node.pod_cidrs.is_empty()) {
            host.queue().add(NODES, &Key::new("", &node.name))?;
        }
    }
    Ok(())
}
