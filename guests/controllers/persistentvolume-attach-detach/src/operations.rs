//! Operations: attachments and detachments that are under way or have failed, in the memo.
//!
//! If the memo is emptied, they begin anew, as after a restart: what is under way shows in the VolumeAttachments.
//!
//! Upstream: pkg/volume/util/nestedpendingoperations/nestedpendingoperations.go: Run, IsOperationPending,
//! IsOperationSafeToRetry, operationComplete.
//! Upstream: pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go.
//! Upstream: pkg/volume/util/metrics.go: OperationCompleteHook.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_volume_plugins::csi;
use serde::{Deserialize, Serialize};

use crate::time::{millis, since};

/// The first delay of a retry. Each failure doubles it.
const BACKOFF: Duration = Duration::from_millis(500);
/// The longest delay of a retry: two minutes and a bit, which makes it recognizable.
const MAX_BACKOFF: Duration = Duration::from_secs(122);
/// How long the memory of an operation, or of a node that waits, is kept: longer than an operation and its backoff take.
const KEPT: Duration = Duration::from_secs(600);

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Attach,
    Detach,
}

impl Action {
    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attach => "volume_attach",
            Self::Detach => "volume_detach",
        }
    }
}

/// The pods that need a volume when its attachment begins. They have the events about it, also those that are deleted
/// meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audience {
    /// The name of the volume in events.
    pub disk: String,
    pub pods: Vec<Meta>,
}

/// An operation on a volume at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub action: Action,
    /// When it began, or failed if it is not pending; in milliseconds since 1970.
    at: u64,
    pub is_pending: bool,
    /// How often it has failed in a row.
    failures: u32,
    /// Empty unless it is a pending attachment.
    #[serde(default)]
    pub audience: Audience,
}

impl Operation {
    /// Returns the time since the operation began, or failed.
    pub fn age(&self, now: Time) -> Duration {
        since(now, self.at)
    }

    /// Whether it is pending. A call that did not return may leave a stale one.
    fn is_under_way(&self, now: Time) -> bool {
        self.is_pending && self.age(now) <= csi::TIMEOUT * 2
    }

    /// Returns how long the next operation of this kind has to wait; zero if none.
    pub fn backoff(&self, action: Action, now: Time) -> Duration {
        if self.is_pending || self.action != action || self.failures == 0 {
            return Duration::ZERO;
        }
        self.delay().saturating_sub(self.age(now))
    }

    fn delay(&self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failures.saturating_sub(1));
        BACKOFF.saturating_mul(doubled).min(MAX_BACKOFF)
    }
}

/// The operations on a volume, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations(BTreeMap<String, Operation>);

impl Operations {
    pub fn recall(host: &Host, volume: &str) -> Self {
        host.memo().get(&key(volume)).unwrap_or_default()
    }

    /// The operation at a node.
    pub fn at(&self, node: &str) -> Option<&Operation> {
        self.0.get(node)
    }

    /// Recalls the operation on a volume that is pending at a node.
    pub fn pending(host: &Host, volume: &str, node: &str) -> Option<Operation> {
        let operation = Self::recall(host, volume).0.remove(node);
        operation.filter(|operation| operation.is_pending)
    }

    /// Whether an operation at another node is pending.
    pub fn are_pending_beside(&self, node: &str, now: Time) -> bool {
        let mut others = self.0.iter().filter(|(name, _)| *name != node);
        others.any(|(_, operation)| operation.is_under_way(now))
    }

    /// Notes that an attachment begins.
    ///
    /// # Errors
    /// The memo is full.
    pub fn begin_attaching(
        host: &Host,
        volume: &str,
        node: &str,
        audience: Audience,
    ) -> Result<(), Error> {
        begin(host, volume, node, Action::Attach, audience)
    }

    /// Notes that a detachment begins.
    ///
    /// # Errors
    /// The memo is full.
    pub fn begin_detaching(host: &Host, volume: &str, node: &str) -> Result<(), Error> {
        begin(host, volume, node, Action::Detach, Audience::default())
    }

    /// Notes that an operation has succeeded.
    ///
    /// # Errors
    /// The memo is full.
    pub fn succeed(host: &Host, volume: &str, node: &str) -> Result<(), Error> {
        change(host, volume, |operations| {
            operations.remove(node);
        })
    }

    /// Notes that an operation has failed, and returns how long the next one has to wait.
    ///
    /// # Errors
    /// The memo is full.
    pub fn fail(host: &Host, volume: &str, node: &str, action: Action) -> Result<Duration, Error> {
        let mut delay = Duration::ZERO;
        change(host, volume, |operations| {
            let failures = take_failures(operations, node, action);
            let failed = Operation {
                action,
                at: millis(host.now()),
                is_pending: false,
                failures: failures.saturating_add(1),
                audience: Audience::default(),
            };
            delay = failed.delay();
            operations.insert(node.into(), failed);
        })?;
        Ok(delay)
    }
}

fn begin(
    host: &Host,
    volume: &str,
    node: &str,
    action: Action,
    audience: Audience,
) -> Result<(), Error> {
    change(host, volume, |operations| {
        let failures = take_failures(operations, node, action);
        let begun = Operation {
            action,
            at: millis(host.now()),
            is_pending: true,
            failures,
            audience,
        };
        operations.insert(node.into(), begun);
    })
}

/// Changes the operations on a volume. The last one removes the entry.
/// Removes an operation at a node. Returns how often it had failed in a row, if it is of this kind.
fn take_failures(operations: &mut BTreeMap<String, Operation>, node: &str, action: Action) -> u32 {
    let before = operations.remove(node);
    before
        .filter(|before| before.action == action)
        .map_or(0, |before| before.failures)
}

fn change(
    host: &Host,
    volume: &str,
    change: impl FnOnce(&mut BTreeMap<String, Operation>),
) -> Result<(), Error> {
    let mut operations = Operations::recall(host, volume);
    change(&mut operations.0);
    match operations.0.is_empty() {
        true => host.memo().remove(&key(volume)),
        false => host.memo().put(&key(volume), &operations, "", KEPT)?,
    }
    Ok(())
}

fn key(volume: &str) -> String {
    format!("operations/{volume}")
}

/// The nodes that wait for a volume that another node has.
pub struct Waiting;

impl Waiting {
    /// Adds a node.
    ///
    /// # Errors
    /// The memo is full.
    pub fn add(host: &Host, volume: &str, node: &str) -> Result<(), Error> {
        host.memo().update(
            &Self::key(volume),
            "",
            KEPT,
            |nodes: &mut BTreeSet<String>| {
                nodes.insert(node.into());
            },
        )?;
        Ok(())
    }

    /// Enqueues the nodes, which wait no more.
    ///
    /// # Errors
    /// A queue is full.
    pub fn wake(host: &Host, volume: &str) -> Result<(), Error> {
        let nodes: Option<BTreeSet<String>> = host.memo().get(&Self::key(volume));
        host.memo().remove(&Self::key(volume));
        for node in nodes.unwrap_or_default() {
            host.queue().add("", &Key::new("", &node))?;
        }
        Ok(())
    }

    fn key(volume: &str) -> String {
        format!("waiting/{volume}")
    }
}
