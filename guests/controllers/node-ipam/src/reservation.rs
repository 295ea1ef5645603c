//! The blocks that a node is about to get, in the memo.
//!
//! A node without ranges is reconciled twice: the first time it reserves blocks, the second time it gets them. Several
//! nodes are reconciled at once, but only the first one adds the entry of a block. A block that the second
//! reconcile finds reserved can't go to another node, even if the call ends before the API server has answered.
//!
//! All entries are removed with the node.
//!
//! Upstream: pkg/controller/nodeipam/ipam/range_allocator.go: AllocateOrOccupyCIDR.
//! Upstream: pkg/controller/nodeipam/ipam/cidrset/cidr_set.go: AllocateNext.

use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::used::used;
use crate::views::Node;

/// The memo's key of the blocks at which the next search begins, one for each set.
const CURSORS: &str = "cursors";
/// The histogram of how many used blocks a search skipped.
pub const TRIES: &str = "node_ipam_controller_cidrset_allocation_tries_per_request";

/// The blocks that a node is about to get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reservation {
    uid: String,
    /// One block of each set.
    blocks: Vec<u64>,
}

/// The set with this index has no free block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted(pub usize);

impl Reservation {
    /// Returns the blocks that are reserved for a node.
    pub fn recall(host: &Host, node: &Meta) -> Option<Self> {
        let found: Option<Self> = host.memo().get(&of_node(&node.name));
        found.filter(|found| found.uid == node.uid)
    }

    /// Reserves the next free blocks. Only a later call can tell whether they are reserved: see [`holds`](Self::holds).
    ///
    /// # Errors
    /// The nodes can't be read, or the memo is full.
    pub fn make(
        host: &Host,
        settings: &Settings,
        node: &Node,
    ) -> Result<Result<(), Exhausted>, Error> {
        let (memo, uid) = (host.memo(), &node.meta.uid);
        let mut used = used(host, settings)?;
        let mut cursors: Vec<u64> = memo.get(CURSORS).unwrap_or_default();
        cursors.resize(settings.sets.len(), 0);
        let (mut blocks, mut tries) = (Vec::new(), Vec::new());
        for (index, set) in settings.sets.iter().enumerate() {
            let (max, used) = (set.max(), &mut used.0[index]);
            let from = cursors[index] % max;
            let block = loop {
                let Some(block) = used.next_free(from, max) else {
                    return Ok(Err(Exhausted(index)));
                };
                if memo.get::<String>(&of_block(index, block)).is_none() {
                    break block;
                }
                used.insert(block..=block);
            };
            cursors[index] = (block + 1) % max;
            tries.push((set.label(), (block + max - from) % max));
            blocks.push(block);
        }
        for (index, block) in blocks.iter().enumerate() {
            match memo.add(&of_block(index, *block), uid, uid, Duration::ZERO) {
                // Another node has just reserved it. The second call finds out, and reserves another block.
                Err(error) if !error.is_conflict() => return Err(error.into()),
                _ => {}
            }
        }
        for (label, skipped) in tries {
            host.metrics().observe(TRIES, &[&label], skipped as f64);
        }
        memo.put(CURSORS, &cursors, "", Duration::ZERO)?;
        let made = Self {
            uid: uid.clone(),
            blocks,
        };
        memo.put(&of_node(&node.meta.name), &made, uid, Duration::ZERO)?;
        Ok(Ok(()))
    }

    /// Whether the blocks are reserved for the node, and no other node has got one of them otherwise.
    ///
    /// # Errors
    /// The nodes can't be read.
    pub fn holds(&self, host: &Host, settings: &Settings) -> Result<bool, Error> {
        if self.blocks.len() != settings.sets.len() || !self.is_first(host) {
            return Ok(false);
        }
        // If another node held the reservation of a block before, the cache shows its ranges now.
        let used = used(host, settings)?;
        let mut blocks = self.blocks.iter().zip(&used.0);
        Ok(!blocks.any(|(block, used)| used.contains_any(&(*block..=*block))))
    }

    fn is_first(&self, host: &Host) -> bool {
        let mut blocks = self.blocks.iter().enumerate();
        blocks.all(|(index, block)| is_of(host, index, *block, &self.uid))
    }

    /// The ranges, as in `spec.podCIDRs`.
    pub fn pod_cidrs(&self, settings: &Settings) -> Vec<String> {
        let blocks = settings.sets.iter().zip(&self.blocks);
        blocks
            .map(|(set, block)| set.block(*block).to_string())
            .collect()
    }

    /// Ends the reservation.
    pub fn release(&self, host: &Host, node: &Meta) {
        for (index, block) in self.blocks.iter().enumerate() {
            if is_of(host, index, *block, &self.uid) {
                host.memo().remove(&of_block(index, *block));
            }
        }
        host.memo().remove(&of_node(&node.name));
    }
}

fn is_of(host: &Host, index: usize, block: u64, uid: &str) -> bool {
    let owner: Option<String> = host.memo().get(&of_block(index, block));
    owner.as_deref() == Some(uid)
}

fn of_node(name: &str) -> String {
    format!("node/{name}")
}

fn of_block(index: usize, block: u64) -> String {
    format!("block/{index}/{block}")
}
