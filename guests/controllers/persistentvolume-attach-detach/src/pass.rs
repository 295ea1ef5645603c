//! A pass over the volumes of a node: takes the decisions, and carries them out.
//!
//! Upstream: pkg/controller/volume/attachdetach/reconciler/reconciler.go: reconcile, attachDesiredVolumes.
//! Upstream: pkg/volume/util/operationexecutor/operation_generator.go: GenerateAttachVolumeFunc,
//! GenerateDetachVolumeFunc.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::{info, warning};
use flyball_volume_plugins::steps::Attaching;

use crate::decide::{Decider, Force, Step, progress};
use crate::memory::{Deleted, Held, LastUse, Standing, Unmounting};
use crate::observe::Observed;
use crate::operations::{Action, Operations, Waiting};
use crate::time::since;
use crate::{events, metrics, multi_attach};

/// How long a node waits for a volume of another node before it looks again, should nothing wake it.
const POLL: Duration = Duration::from_secs(30);
/// How long a node waits for the end of a time that is over by the wall clock.
const LATE: Duration = Duration::from_secs(1);

/// A pass over the volumes of a node.
pub struct Pass<'a> {
    pub(crate) decider: &'a Decider<'a>,
    pub(crate) observed: Observed,
    /// Whether the node's status has to change.
    pub(crate) is_stale: bool,
    /// The time until the next pass.
    wait: Option<Duration>,
    /// The volumes that have been attached, but are not in the node's status yet.
    pub(crate) attached: Vec<Attached>,
    /// The volumes to detach once they are not in the node's status any more.
    pub(crate) detaching: Vec<Detaching>,
    /// The VolumeAttachments to create.
    pub(crate) creations: Vec<(String, Value)>,
}

/// A volume that has been attached.
pub(crate) struct Attached {
    pub(crate) volume: String,
    /// What was known of it before.
    pub(crate) before: Option<Held>,
}

/// A volume that is about to be detached.
pub(crate) struct Detaching {
    pub(crate) volume: String,
    pub(crate) before: Standing,
    pub(crate) force: Option<Force>,
}

/// Attaches and detaches the volumes of a node.
///
/// # Errors
/// A read failed, or the memo or a queue is full. Failed writes are tried again.
pub fn run(decider: &Decider, name: &str) -> Result<Outcome, Error> {
    let mut pass = Pass::begin(decider, name)?;
    for volume in pass.observed.volumes() {
        let step = decider.decide(&pass.observed, &volume)?;
        pass.take(&volume, step)?;
    }
    pass.write_status()?;
    let mut requests = pass.creations();
    requests.extend(pass.deletions()?);
    pass.send(requests)?;
    pass.end()
}

impl<'a> Pass<'a> {
    /// Reads the state of a node.
    fn begin(decider: &'a Decider<'a>, name: &str) -> Result<Self, Error> {
        let host = decider.host;
        let mut pass = Self {
            decider,
            observed: Observed::read(host, decider.disks, name)?,
            is_stale: false,
            wait: None,
            attached: Vec::new(),
            detaching: Vec::new(),
            creations: Vec::new(),
        };
        let observed = &mut pass.observed;
        for volume in &observed.lost {
            info!(
                host,
                "volume {volume} is not attached to node {name} any more"
            );
            Waiting::wake(host, volume)?;
        }
        // A node that was deleted and created again has an empty status.
        let node = observed.node.as_ref();
        let uid = node.map_or_else(String::new, |node| node.meta.uid.clone());
        pass.is_stale = !observed.lost.is_empty() || observed.memory.uid != uid;
        if !uid.is_empty() {
            if observed.memory.uid != uid {
                LastUse::forget(host, name);
            }
            observed.memory.uid = uid;
        }
        Ok(pass)
    }

    /// Stores the memory, and returns when to look again.
    fn end(mut self) -> Result<Outcome, Error> {
        let host = self.decider.host;
        metrics::count(host, self.decider.disks, &mut self.observed);
        let Observed {
            name,
            node,
            before,
            memory,
            ..
        } = &self.observed;
        memory.store(host, name, before)?;
        if node.is_none() {
            Deleted::note(host, name, memory)?;
        }
        Ok(self.wait.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.wait = Some(self.wait.map_or(time, |wait| wait.min(time)));
    }

    /// The time that the node has for unmounting a volume.
    pub(crate) fn unmounting(&self, volume: &str) -> Unmounting<'a> {
        let Decider { host, settings, .. } = self.decider;
        Unmounting::new(host, &self.observed.name, volume, settings.unmount)
    }
}

/// The decisions.
impl Pass<'_> {
    fn take(&mut self, volume: &str, step: Step) -> Result<(), Error> {
        match step {
            Step::Rest => self.rest(volume),
            Step::Wait(time) => self.wait(time),
            Step::Queue => self.queue(volume)?,
            Step::Refuse(holders) => self.refuse(volume, &holders)?,
            Step::AwaitUnmount => self.await_unmount(volume)?,
            Step::Attach => self.attach(volume)?,
            Step::Detach(force) => self.detach(volume, force)?,
            Step::End(Action::Attach, Ok(())) => self.attached(volume, ""),
            Step::End(Action::Detach, Ok(())) => self.detached(volume)?,
            Step::End(action, Err(error)) => self.failed(volume, action, &error)?,
        }
        Ok(())
    }

    fn rest(&mut self, volume: &str) {
        let unmounting = self.unmounting(volume);
        if let Some(held) = self.observed.memory.volumes.get_mut(volume) {
            unmounting.end(held);
        }
        self.observed.memory.refused.remove(volume);
    }

    /// Waits until the operation or the attachment at another node has ended.
    fn queue(&mut self, volume: &str) -> Result<(), Error> {
        Waiting::add(self.decider.host, volume, &self.observed.name)?;
        self.wait(POLL);
        Ok(())
    }

    /// Tells the pods once that another node has their volume.
    fn refuse(&mut self, volume: &str, holders: &[String]) -> Result<(), Error> {
        if !self.observed.memory.refused.contains(volume)
            && multi_attach::report(self.decider, &self.observed, volume, holders)?
        {
            self.observed.memory.refused.insert(volume.into());
        }
        self.queue(volume)
    }

    fn await_unmount(&mut self, volume: &str) -> Result<(), Error> {
        let unmounting = self.unmounting(volume);
        let Decider { host, settings, .. } = self.decider;
        let Some(held) = self.observed.memory.volumes.get_mut(volume) else {
            return Ok(());
        };
        unmounting.begin(held, host.now())?;
        if !unmounting.is_over(held) {
            let waited = held
                .unused_since
                .map_or(Duration::ZERO, |then| since(host.now(), then));
            let rest = settings.unmount.saturating_sub(waited);
            self.wait(rest.max(LATE));
        }
        Ok(())
    }

    fn attach(&mut self, volume: &str) -> Result<(), Error> {
        let Decider { host, disks, .. } = self.decider;
        let name = self.observed.name.clone();
        let Some(wanted) = self.observed.wanted(volume) else {
            return Ok(());
        };
        let Some(plugin) = disks.plugin(&wanted.disk) else {
            return Ok(());
        };
        info!(host, "attaching volume {volume} to node {name}");
        let attaching = wanted.disk.attaching(plugin, &name);
        Operations::begin_attaching(host, volume, &name, wanted.audience())?;
        match attaching {
            Attaching::Attached(device) => self.attached(volume, &device),
            Attaching::Failed(error) => self.failed(volume, Action::Attach, &error)?,
            Attaching::Attachment(object) => {
                let attachment = self.observed.attachment(volume);
                let is_new = attachment.is_none();
                if let Some(Ok(())) = progress(Action::Attach, attachment) {
                    self.attached(volume, "");
                    return Ok(());
                }
                if is_new {
                    self.creations.push((volume.into(), object));
                }
                self.follow(volume)?;
            }
        }
        Ok(())
    }

    /// Notes when to look at an operation that has just begun.
    pub(crate) fn follow(&mut self, volume: &str) -> Result<(), Error> {
        if let Step::Wait(time) = self.decider.decide(&self.observed, volume)? {
            self.wait(time);
        }
        Ok(())
    }

    /// Notes that a volume has been attached. Its pods have their event once the node's status has it.
    fn attached(&mut self, volume: &str, device: &str) {
        let wanted = self.observed.wanted(volume);
        let held = Held {
            is_migrated: wanted.is_some_and(|wanted| wanted.disk.is_migrated),
            ..Held::new(Standing::Attached, device)
        };
        let is_wanted = wanted.is_some();
        let before = self.observed.memory.volumes.insert(volume.into(), held);
        self.is_stale = true;
        self.attached.push(Attached {
            volume: volume.into(),
            before,
        });
        // It may have to be detached at once.
        if !is_wanted {
            self.wait(Duration::ZERO);
        }
    }

    /// Takes a volume out of the node's status, so that it can be detached.
    fn detach(&mut self, volume: &str, force: Option<Force>) -> Result<(), Error> {
        let unmounting = self.unmounting(volume);
        let now = self.decider.host.now();
        let Some(held) = self.observed.memory.volumes.get_mut(volume) else {
            return Ok(());
        };
        unmounting.begin(held, now)?;
        let before = std::mem::replace(&mut held.standing, Standing::Detaching);
        self.is_stale |= before == Standing::Attached;
        self.detaching.push(Detaching {
            volume: volume.into(),
            before,
            force,
        });
        Ok(())
    }

    /// Notes that a volume has been detached.
    pub(crate) fn detached(&mut self, volume: &str) -> Result<(), Error> {
        let host = self.decider.host;
        let name = self.observed.name.clone();
        info!(host, "detached volume {volume} from node {name}");
        metrics::observe_end(self.decider, &self.observed, volume, Action::Detach, true);
        let unmounting = self.unmounting(volume);
        if let Some(mut held) = self.observed.memory.volumes.remove(volume) {
            unmounting.end(&mut held);
        }
        Operations::succeed(host, volume, &name)?;
        Waiting::wake(host, volume)?;
        // A pod may need it again.
        if self.observed.wanted(volume).is_some() {
            self.wait(Duration::ZERO);
        }
        Ok(())
    }

    /// Notes that an operation has failed. It is uncertain then whether the volume is attached.
    pub(crate) fn failed(
        &mut self,
        volume: &str,
        action: Action,
        error: &str,
    ) -> Result<(), Error> {
        let host = self.decider.host;
        let name = self.observed.name.clone();
        warning!(
            host,
            "{} of volume {volume} at node {name}: {error}",
            action.name()
        );
        metrics::observe_end(self.decider, &self.observed, volume, action, false);
        if let Some(operation) = Operations::pending(host, volume, &name) {
            events::attach_failed(host, &operation.audience, error);
        }
        let held = self.observed.memory.volumes.entry(volume.into());
        let held = held.or_insert_with(|| Held::new(Standing::Uncertain, ""));
        held.standing = Standing::Uncertain;
        let backoff = Operations::fail(host, volume, &name, action)?;
        self.wait(backoff);
        Waiting::wake(host, volume)
    }
}
