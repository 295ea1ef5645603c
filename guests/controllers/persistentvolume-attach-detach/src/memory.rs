//! The memory of a node: which volumes the controller has attached to it, in the memo.
//!
//! If the memo is emptied, the memory begins with the volumes in the node's status, as after a restart. The status alone
//! is not enough: somebody else may overwrite it, and a deleted node has none.
//!
//! Upstream: pkg/controller/volume/attachdetach/cache/actual_state_of_world.go.
//! Upstream: pkg/controller/volume/attachdetach/attach_detach_controller.go: populateActualStateOfWorld.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

use crate::time::millis;
use crate::views::{Node, ReportedVolume};

/// How much is certain about a volume at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It is attached, and the node's status says so.
    Attached,
    /// It is attached, but being detached: the node's status does not have it any more.
    Detaching,
    /// It may be attached: an operation has failed, or only its VolumeAttachment was found.
    Uncertain,
}

/// A volume at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub standing: Standing,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Whether it is of a kind that was replaced by CSI.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_migrated: bool,
    /// Since when no pod uses it, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_since: Option<u64>,
}

impl Held {
    pub fn new(standing: Standing, device: &str) -> Self {
        Self {
            standing,
            device: device.into(),
            is_migrated: false,
            unused_since: None,
        }
    }
}

/// The memory of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Whether the memo has it.
    #[serde(skip)]
    is_remembered: bool,
    /// The UID of the node when it was last seen.
    pub uid: String,
    /// By unique name.
    pub volumes: BTreeMap<String, Held>,
    /// The volumes that can't be attached because another node has them, for which pods have their event.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused: BTreeSet<String>,
    /// The volumes that are not attached any more, as the last verification found.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub lost: BTreeSet<String>,
    /// The labels under which volumes were last counted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub counted: BTreeSet<String>,
}

impl Memory {
    /// Recalls the memory of a node, which may not exist any more.
    pub fn recall(host: &Host, name: &str, node: Option<&Node>) -> Self {
        match host.memo().get::<Self>(&key(name)) {
            Some(remembered) => Self {
                is_remembered: true,
                ..remembered
            },
            None => node.map_or_else(Self::default, Self::of_status),
        }
    }

    fn of_status(node: &Node) -> Self {
        let attached = node.attached.iter().map(|reported| {
            let held = Held::new(Standing::Attached, &reported.device_path);
            (reported.name.clone(), held)
        });
        Self {
            uid: node.meta.uid.clone(),
            volumes: attached.collect(),
            ..Self::default()
        }
    }

    /// Stores the memory, unless it is the same as before. An empty one is removed.
    ///
    /// # Errors
    /// The memo is full.
    pub fn store(&self, host: &Host, name: &str, before: &Self) -> Result<(), Error> {
        if self.is_empty() {
            host.memo().remove(&key(name));
        } else if self != before || !self.is_remembered {
            host.memo().put(&key(name), self, "", Duration::ZERO)?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.volumes.is_empty()
            && self.refused.is_empty()
            && self.lost.is_empty()
            && self.counted.is_empty()
    }

    /// Whether a volume is attached, for certain.
    pub fn has(&self, volume: &str) -> bool {
        let held = self.volumes.get(volume);
        held.is_some_and(|held| held.standing != Standing::Uncertain)
    }

    /// The list for the node's status.
    pub fn reported(&self) -> Vec<ReportedVolume> {
        let attached = self.volumes.iter();
        attached
            .filter(|(_, held)| held.standing == Standing::Attached)
            .map(|(name, held)| ReportedVolume {
                name: name.clone(),
                device_path: held.device.clone(),
            })
            .collect()
    }
}

fn key(node: &str) -> String {
    format!("node/{node}")
}

/// The volumes that a deleted node used when it was last seen, in the memo.
///
/// Upstream: pkg/controller/volume/attachdetach/attach_detach_controller.go: nodeDelete.
pub struct LastUse;

impl LastUse {
    /// Notes what a node used that has been deleted.
    ///
    /// # Errors
    /// The memo is full.
    pub fn note(host: &Host, node: &Node) -> Result<(), Error> {
        let key = Self::key(&node.meta.name);
        Ok(host.memo().put(&key, &node.in_use, "", Duration::ZERO)?)
    }

    /// Recalls what a deleted node used; `None` if that is not known.
    pub fn recall(host: &Host, node: &str) -> Option<BTreeSet<String>> {
        host.memo().get(&Self::key(node))
    }

    pub fn forget(host: &Host, node: &str) {
        host.memo().remove(&Self::key(node));
    }

    fn key(node: &str) -> String {
        format!("last-use/{node}")
    }
}

/// The nodes that don't exist any more and still have volumes. No index finds them.
pub struct Deleted;

impl Deleted {
    const KEY: &str = "deleted";

    /// Returns the nodes.
    pub fn all(host: &Host) -> BTreeSet<String> {
        host.memo().get(Self::KEY).unwrap_or_default()
    }

    /// Notes whether a node that does not exist still has volumes.
    ///
    /// # Errors
    /// The memo is full.
    pub fn note(host: &Host, node: &str, memory: &Memory) -> Result<(), Error> {
        let mut nodes = Self::all(host);
        let is_changed = match memory.volumes.is_empty() {
            true => {
                LastUse::forget(host, node);
                nodes.remove(node)
            }
            false => nodes.insert(node.into()),
        };
        if is_changed {
            host.memo().put(Self::KEY, &nodes, "", Duration::ZERO)?;
        }
        Ok(())
    }
}

/// The time that a node has for unmounting a volume that no pod uses.
///
/// It passes by the host's clock, which nobody can set: an entry of the memo expires.
///
/// Upstream: pkg/controller/volume/attachdetach/cache/actual_state_of_world.go: SetDetachRequestTime.
pub struct Unmounting<'a> {
    host: &'a Host<'a>,
    key: String,
    limit: Duration,
}

impl<'a> Unmounting<'a> {
    pub fn new(host: &'a Host, node: &str, volume: &str, limit: Duration) -> Self {
        Self {
            host,
            key: format!("unmounting/{node}/{volume}"),
            limit,
        }
    }

    /// Begins the time unless it has begun.
    ///
    /// # Errors
    /// The memo is full.
    pub fn begin(&self, held: &mut Held, now: Time) -> Result<(), Error> {
        if held.unused_since.is_none() {
            held.unused_since = Some(millis(now));
            if !self.limit.is_zero() {
                self.host.memo().put(&self.key, &true, "", self.limit)?;
            }
        }
        Ok(())
    }

    /// Ends the time: a pod uses the volume, or it is detached.
    pub fn end(&self, held: &mut Held) {
        if held.unused_since.take().is_some() {
            self.host.memo().remove(&self.key);
        }
    }

    /// Whether the time has passed.
    pub fn is_over(&self, held: &Held) -> bool {
        held.unused_since.is_some() && self.host.memo().get::<bool>(&self.key).is_none()
    }
}
