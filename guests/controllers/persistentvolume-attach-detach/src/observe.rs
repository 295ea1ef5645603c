//! Observes a node: the volumes that its pods need, and those that it has.
//!
//! Upstream: pkg/controller/volume/attachdetach/cache/actual_state_of_world.go: GetAttachedVolumes, GetAttachState,
//! SetVolumesMountedByNode.
//! Upstream: pkg/controller/volume/attachdetach/attach_detach_controller.go: processVolumeAttachments,
//! processVolumesInUse.

use std::collections::{BTreeMap, BTreeSet};

use flyball_sdk::prelude::*;

use crate::desired::{Desired, Wanted};
use crate::disk::{Disk, Disks};
use crate::memory::{Held, LastUse, Memory, Standing};
use crate::views::{Attachment, Node, PersistentVolume};

/// The index of VolumeAttachments by the names of their nodes.
pub const ATTACHED_TO: &str = "node";

/// A node, or what is left of one that does not exist any more.
#[derive(Clone, Debug)]
pub struct Observed {
    pub name: String,
    pub node: Option<Node>,
    pub desired: Desired,
    /// The memory as it was.
    pub before: Memory,
    /// The same, but without lost volumes and refused ones that no pod needs, and with volumes of which only a
    /// VolumeAttachment exists.
    pub memory: Memory,
    /// The VolumeAttachments, by the unique names of their volumes.
    attachments: BTreeMap<String, Attachment>,
    /// The disks of volumes that no pod needs, as far as their VolumeAttachments tell.
    disks: BTreeMap<String, Disk>,
    /// The volumes that no pod is known to need, and that stay all the same.
    kept: BTreeSet<String>,
    /// The volumes that the node used when it was deleted, if that is known.
    last_use: Option<BTreeSet<String>>,
    /// The volumes that a verification found not to be attached any more.
    pub lost: BTreeSet<String>,
}

impl Observed {
    /// Reads the state of a node.
    ///
    /// # Errors
    /// A read failed, or an object is malformed.
    pub fn read(host: &Host, disks: &Disks, name: &str) -> Result<Self, Error> {
        let node = host.get::<Node>("", name)?;
        let before = Memory::recall(host, name, node.as_ref());
        let mut memory = before.clone();
        let lost = std::mem::take(&mut memory.lost);
        memory.volumes.retain(|volume, _| !lost.contains(volume));
        let mut observed = Self {
            name: name.into(),
            desired: Desired::of_node(host, disks, name)?,
            node,
            before,
            memory,
            attachments: BTreeMap::new(),
            disks: BTreeMap::new(),
            kept: BTreeSet::new(),
            last_use: None,
            lost,
        };
        if observed.node.is_none() {
            observed.last_use = LastUse::recall(host, name);
        }
        let wanted = &observed.desired.volumes;
        let refused = &mut observed.memory.refused;
        refused.retain(|volume| wanted.contains_key(volume));
        observed.read_attachments(host, disks)?;
        observed.keep_unbound(host, disks)?;
        Ok(observed)
    }

    /// Assigns the VolumeAttachments to volumes. One of an unknown volume may be attached, and one with another name than
    /// this controller gives is somebody else's.
    fn read_attachments(&mut self, host: &Host, disks: &Disks) -> Result<(), Error> {
        let known = self
            .memory
            .volumes
            .keys()
            .chain(self.desired.volumes.keys());
        let by_attachment: BTreeMap<String, String> = known
            .filter_map(|volume| Some((disks.attachment_name(volume, &self.name)?, volume.clone())))
            .collect();
        let attachments = host.list::<Attachment>().index(ATTACHED_TO, &self.name);
        for attachment in attachments.all()? {
            let name = &attachment.meta.name;
            let known = by_attachment.get(name);
            let is_wanted = known.is_some_and(|volume| self.desired.volumes.contains_key(volume));
            let disk = match is_wanted {
                true => None,
                false => disks.of_attachment(&attachment)?,
            };
            let found = disk.and_then(|disk| Some((disks.unique_name(&disk)?, disk)));
            let is_own =
                |volume: &String| disks.attachment_name(volume, &self.name).as_ref() == Some(name);
            let found = found.filter(|(volume, _)| is_own(volume));
            let unknown = found.as_ref().map(|(volume, _)| volume);
            let Some(volume) = known.or(unknown).cloned() else {
                continue;
            };
            self.disks.extend(found);
            let held = self.memory.volumes.entry(volume.clone());
            held.or_insert_with(|| Held::new(Standing::Uncertain, ""));
            self.attachments.insert(volume, attachment);
        }
        Ok(())
    }

    /// Keeps the volumes of pods whose claims have lost them, as long as it can be seen that they are theirs, and those that
    /// no plugin of this controller has attached.
    fn keep_unbound(&mut self, host: &Host, disks: &Disks) -> Result<(), Error> {
        let is_foreign = |volume: &&String| disks.plugins.split_unique_name(volume).is_none();
        let foreign = self.memory.volumes.keys().filter(is_foreign);
        self.kept = foreign.cloned().collect();
        for claim in &self.desired.unbound {
            if !claim.volume.is_empty()
                && let Some(disk) = disks.of_persistent_volume(&claim.volume)?
            {
                self.kept.extend(disks.unique_name(&disk));
            }
        }
        if self.desired.unbound.is_empty() {
            return Ok(());
        }
        for (volume, attachment) in &self.attachments {
            let Some(name) = &attachment.volume else {
                continue;
            };
            let reserved = host.get::<PersistentVolume>("", name)?;
            let reserved = reserved.and_then(|volume| volume.claim());
            let is_theirs = { self.desired.unbound.iter() }
                .any(|claim| claim.volume == *name || reserved.as_ref() == Some(&claim.claim));
            if is_theirs {
                self.kept.insert(volume.clone());
            }
        }
        Ok(())
    }
}

/// The volumes.
impl Observed {
    /// The names of all volumes that the node has or needs.
    pub fn volumes(&self) -> BTreeSet<String> {
        let held = self.memory.volumes.keys();
        held.chain(self.desired.volumes.keys()).cloned().collect()
    }

    /// The pods' need of a volume. At a node that is not managed, volumes are not attached.
    pub fn wanted(&self, volume: &str) -> Option<&Wanted> {
        let is_managed = self.node.as_ref().is_some_and(Node::is_managed);
        self.desired.volumes.get(volume).filter(|_| is_managed)
    }

    /// Whether a volume may not be detached. At a node that is not managed, the volumes of pods are not.
    pub fn is_kept(&self, volume: &str) -> bool {
        self.kept.contains(volume) || self.desired.volumes.contains_key(volume)
    }

    /// Whether the node uses a volume. A deleted node of which nothing is known may use all.
    pub fn is_mounted(&self, volume: &str) -> bool {
        match (&self.node, &self.last_use) {
            (Some(node), _) => node.uses(volume),
            (None, Some(used)) => used.contains(volume),
            (None, None) => true,
        }
    }

    pub fn attachment(&self, volume: &str) -> Option<&Attachment> {
        self.attachments.get(volume)
    }

    /// Replaces the VolumeAttachment of a volume by a newer version.
    pub fn set_attachment(&mut self, volume: &str, attachment: Attachment) {
        self.attachments.insert(volume.into(), attachment);
    }

    /// The disk of a volume; `None` if nothing tells what it is.
    pub fn disk(&self, volume: &str) -> Option<&Disk> {
        let wanted = self.desired.volumes.get(volume);
        wanted
            .map(|wanted| &wanted.disk)
            .or_else(|| self.disks.get(volume))
    }
}
