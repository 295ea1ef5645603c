//! Decides what is to be done about each volume of a node.
//!
//! Upstream: pkg/controller/volume/attachdetach/reconciler/reconciler.go: reconcile, attachDesiredVolumes,
//! nodeIsHealthy, hasOutOfServiceTaint.
//! Upstream: pkg/volume/csi/csi_attacher.go: waitForVolumeAttachDetachStatusWithLister.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_volume_plugins::csi;

use crate::disk::{Disk, Disks};
use crate::memory::{Deleted, Memory, Standing, Unmounting};
use crate::observe::Observed;
use crate::operations::{Action, Operation, Operations};
use crate::settings::Settings;
use crate::views::{Attachment, Node};

/// The index of nodes by the volumes in their status.
pub const ATTACHED: &str = "attached";
/// The index of VolumeAttachments by their PersistentVolumes.
pub const BY_VOLUME: &str = "volume";

/// How long an attacher has for correcting the error that an earlier operation left in a VolumeAttachment.
const FIRST_LOOK: Duration = Duration::from_millis(500);

/// What is to be done about a volume at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until something changes.
    Rest,
    /// Nothing until this time has passed.
    Wait(Duration),
    /// Nothing until an operation at another node has ended.
    Queue,
    /// Nothing until these nodes, which have the volume, have detached it.
    Refuse(Vec<String>),
    /// Nothing until the node has unmounted the volume, or its time for that is over.
    AwaitUnmount,
    Attach,
    /// Detach it, for this reason although the node may use it.
    Detach(Option<Force>),
    /// The pending operation has ended.
    End(Action, Result<(), String>),
}

/// Why a volume is detached although its node may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// The node is not ready, and its time for unmounting is over.
    Timeout,
    /// The node has the taint of a machine that was shut down.
    OutOfService,
}

impl Force {
    /// The reason in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::OutOfService => "out-of-service",
        }
    }
}

/// The state of a volume at other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Elsewhere {
    /// It does not matter, or it is nowhere else.
    #[default]
    Free,
    /// An operation is pending.
    Busy,
    /// It is attached to these nodes.
    Held(Vec<String>),
}

/// All that matters for the decision about a volume at a node.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    pub now: Time,
    /// Whether a pod at a managed node needs it.
    pub is_wanted: bool,
    /// Whether it stays, although no pod is known to need it.
    pub is_kept: bool,
    /// `None` if it is not attached.
    pub standing: Option<Standing>,
    pub is_mounted: bool,
    /// Why it may be detached although it is mounted.
    pub force: Option<Force>,
    pub operation: Option<&'a Operation>,
    /// How the pending operation goes: see [`progress`].
    pub progress: Option<Result<(), String>>,
    /// The error of a pending operation that takes too long.
    pub timeout: String,
    pub elsewhere: Elsewhere,
}

/// Decides about a volume.
pub fn decide(case: &Case) -> Step {
    if let Some(operation) = case.operation.filter(|one| one.is_pending) {
        return follow(case, operation);
    }
    if case.is_wanted {
        return match &case.elsewhere {
            _ if case.standing == Some(Standing::Attached) => Step::Rest,
            Elsewhere::Busy => Step::Queue,
            Elsewhere::Held(nodes) => Step::Refuse(nodes.clone()),
            Elsewhere::Free => after_backoff(case, Action::Attach, Step::Attach),
        };
    }
    if case.standing.is_none() || case.is_kept {
        return Step::Rest;
    }
    if case.elsewhere == Elsewhere::Busy {
        return Step::Queue;
    }
    let next = match case.is_mounted && case.force.is_none() {
        true => Step::AwaitUnmount,
        false => Step::Detach(case.force),
    };
    after_backoff(case, Action::Detach, next)
}

/// Follows a pending operation.
fn follow(case: &Case, operation: &Operation) -> Step {
    let age = operation.age(case.now);
    let left = |limit: Duration| limit.checked_sub(age).filter(|left| !left.is_zero());
    match &case.progress {
        Some(Ok(())) => Step::End(operation.action, Ok(())),
        Some(Err(error)) => left(FIRST_LOOK).map_or_else(
            || Step::End(operation.action, Err(error.clone())),
            Step::Wait,
        ),
        None => left(csi::TIMEOUT).map_or_else(
            || Step::End(operation.action, Err(case.timeout.clone())),
            Step::Wait,
        ),
    }
}

fn after_backoff(case: &Case, action: Action, step: Step) -> Step {
    let backoff = case.operation.map(|one| one.backoff(action, case.now));
    match backoff.filter(|backoff| !backoff.is_zero()) {
        Some(backoff) => Step::Wait(backoff),
        None => step,
    }
}

/// How an operation goes, by the VolumeAttachment; `None` while it is under way.
pub fn progress(action: Action, attachment: Option<&Attachment>) -> Option<Result<(), String>> {
    match (action, attachment) {
        (Action::Attach, Some(attachment)) => {
            let error = attachment.attach_error.as_ref();
            csi::attachment_state(
                attachment.meta.is_deleting(),
                attachment.is_attached,
                error.map(|error| &*error.message),
            )
        }
        // Somebody has deleted it. It is created again after the time for the operation.
        (Action::Attach, None) => None,
        (Action::Detach, Some(attachment)) => {
            let error = attachment.detach_error.as_ref();
            error.map(|error| Err(error.message.clone()))
        }
        (Action::Detach, None) => Some(Ok(())),
    }
}

/// Returns why a volume may be detached from a node although it is mounted. `is_over` says whether the node's time for
/// unmounting it is over.
pub fn force(node: Option<&Node>, is_over: bool, settings: &Settings) -> Option<Force> {
    let is_ready = node.is_some_and(Node::is_ready);
    let is_out_of_service = node.is_some_and(Node::is_out_of_service);
    let is_timeout = is_over && settings.forces;
    match (is_timeout, is_ready, is_out_of_service) {
        (true, false, _) | (true, _, true) => Some(Force::Timeout),
        (_, _, true) => Some(Force::OutOfService),
        _ => None,
    }
}

/// Decides about the volumes of nodes.
pub struct Decider<'a> {
    pub host: &'a Host<'a>,
    pub disks: &'a Disks<'a>,
    pub settings: &'a Settings,
}

impl Decider<'_> {
    /// Decides about a volume of a node.
    ///
    /// # Errors
    /// A read failed.
    pub fn decide(&self, observed: &Observed, volume: &str) -> Result<Step, Error> {
        let (host, name) = (self.host, &*observed.name);
        let held = observed.memory.volumes.get(volume);
        let standing = held.map(|held| held.standing);
        let is_wanted = observed.wanted(volume).is_some();
        let is_kept = observed.is_kept(volume);
        // Most volumes are attached and needed.
        if standing == Some(Standing::Attached) && (is_wanted || is_kept) {
            return Ok(Step::Rest);
        }
        let operations = Operations::recall(host, volume);
        let operation = operations.at(name);
        let pending = operation.filter(|operation| operation.is_pending);
        let unmounting = Unmounting::new(host, name, volume, self.settings.unmount);
        let is_over = held.is_some_and(|held| unmounting.is_over(held));
        let elsewhere = match observed.disk(volume).filter(|disk| disk.is_exclusive()) {
            _ if pending.is_some() => Elsewhere::Free,
            Some(disk) => self.elsewhere(&operations, name, volume, disk, is_wanted)?,
            None => Elsewhere::Free,
        };
        Ok(decide(&Case {
            now: host.now(),
            is_wanted,
            is_kept,
            standing,
            is_mounted: observed.is_mounted(volume),
            force: force(observed.node.as_ref(), is_over, self.settings),
            operation,
            progress: pending.and_then(|one| progress(one.action, observed.attachment(volume))),
            timeout: pending.map_or_else(String::new, |one| self.timeout(volume, one.action)),
            elsewhere,
        }))
    }

    /// Returns the state of an exclusive volume at other nodes.
    fn elsewhere(
        &self,
        operations: &Operations,
        node: &str,
        volume: &str,
        disk: &Disk,
        is_wanted: bool,
    ) -> Result<Elsewhere, Error> {
        if operations.are_pending_beside(node, self.host.now()) {
            return Ok(Elsewhere::Busy);
        }
        if !is_wanted {
            return Ok(Elsewhere::Free);
        }
        let holders = self.holders(node, volume, disk)?;
        Ok(match holders.is_empty() {
            true => Elsewhere::Free,
            false => Elsewhere::Held(holders),
        })
    }

    /// Returns the other nodes that a volume is attached to. The status of a node may not have it, and a deleted node has no
    /// status.
    fn holders(&self, node: &str, volume: &str, disk: &Disk) -> Result<Vec<String>, Error> {
        let host = self.host;
        let mut nodes = Deleted::all(host);
        host.list::<Node>().index(ATTACHED, volume).each(|other| {
            nodes.insert(other.meta.name);
            Ok(())
        })?;
        if let Some(name) = disk.persistent_volume() {
            host.list::<Attachment>()
                .index(BY_VOLUME, name)
                .each(|other| {
                    nodes.insert(other.node);
                    Ok(())
                })?;
        }
        nodes.remove(node);
        let mut holders = Vec::new();
        for name in nodes {
            let other = host.get::<Node>("", &name)?;
            if Memory::recall(host, &name, other.as_ref()).has(volume) {
                holders.push(name);
            }
        }
        Ok(holders)
    }

    fn timeout(&self, volume: &str, action: Action) -> String {
        let source = self.disks.source(volume);
        let operation = match action {
            Action::Attach => "attach",
            Action::Detach => "detach",
        };
        source.map_or_else(String::new, |source| source.timeout_error(operation))
    }
}
