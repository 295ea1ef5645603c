//! The `NoExecute` taints that a node should have. The monitor and the limiters decide about them, and the queue of
//! nodes alone writes taints. So no two calls write the taints of a node at the same time.
//!
//! Decisions are in the memo, which is committed when a call returns, but a key that the call enqueues is taken at
//! once. So a decision's node is woken by the next call for the same key ([`Handout`]).
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go: processTaintBaseEviction,
//! doNoExecuteTaintingPass.

use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::taints::{cleared, of_status, swapped};
use crate::views::Node;
use crate::zone::Zone;
use crate::{LIMITERS, NODES};

/// The `NoExecute` taints that a node should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// The taint that follows from the condition `Ready`, and not its opposite.
    OfCondition,
    /// The same as `OfCondition`, because the node has its turn in this zone.
    Turn(Zone),
    /// Neither taint.
    Nothing,
}

impl Wanted {
    fn key(node: &str) -> String {
        format!("wanted/{node}")
    }

    /// Reads the decision about a node; `None` if its taints may stay.
    pub fn of(host: &Host, node: &str) -> Option<Self> {
        host.memo().get(&Self::key(node))
    }

    /// Stores the decision until the node is deleted.
    ///
    /// # Errors
    /// The memo is full.
    pub fn store(&self, host: &Host, node: &str, uid: &str) -> Result<(), Error> {
        let key = Self::key(node);
        Ok(host.memo().put(&key, self, uid, Duration::ZERO)?)
    }

    /// Ends the decision, because the node has its taints.
    pub fn end(host: &Host, node: &str) {
        host.memo().remove(&Self::key(node));
    }

    /// The taints of a node after it. `None` if they are right.
    pub fn taints(&self, node: &Node, now: Time) -> Option<Vec<Value>> {
        let status = match self {
            Self::OfCondition | Self::Turn(_) => node.status_of("Ready"),
            Self::Nothing => None,
        };
        match status.and_then(of_status) {
            Some((key, opposite)) => swapped(node, key, opposite, now),
            None => cleared(node),
        }
    }
}

/// The result of a pass of the monitor, for the call that wakes the nodes and zones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Handout {
    /// When the pass began, in milliseconds since 1970.
    pub begun: u64,
    pub nodes: Vec<String>,
    pub zones: Vec<Zone>,
}

impl Handout {
    const KEY: &str = "handout";

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.zones.is_empty()
    }

    /// # Errors
    /// The memo is full.
    pub fn store(&self, host: &Host) -> Result<(), Error> {
        Ok(host.memo().put(Self::KEY, self, "", Duration::ZERO)?)
    }

    /// Takes the result that the previous pass stored.
    pub fn take(host: &Host) -> Option<Self> {
        let memo = host.memo();
        let found = memo.get(Self::KEY)?;
        memo.remove(Self::KEY);
        Some(found)
    }

    /// Wakes the nodes and zones.
    ///
    /// # Errors
    /// A queue is full.
    pub fn wake(&self, host: &Host) -> Result<(), Error> {
        let queue = host.queue();
        for node in &self.nodes {
            queue.add(NODES, &Key::new("", node))?;
        }
        for zone in &self.zones {
            queue.add(LIMITERS, &Key::new("", &zone.to_string()))?;
        }
        Ok(())
    }
}
