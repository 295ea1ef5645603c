//! Compares the volumes in the status of a node with their VolumeAttachments. Somebody else may have deleted one, or an
//! attacher may have found that its volume is not attached.
//!
//! Upstream: pkg/controller/volume/attachdetach/reconciler/reconciler.go: syncStates.
//! Upstream: pkg/volume/util/operationexecutor/operation_generator.go: GenerateVolumesAreAttachedFunc.
//! Upstream: pkg/volume/csi/csi_attacher.go: VolumesAreAttached.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;

use crate::decide::Decider;
use crate::key::Item;
use crate::memory::{Memory, Standing};
use crate::metrics;
use crate::observe::ATTACHED_TO;
use crate::views::{Attachment, Node};

/// A VolumeAttachment, as a row.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "storage.k8s.io/v1/VolumeAttachment")]
struct Row {
    #[view(path = "metadata.name")]
    name: String,
    #[view(path = "status.attached")]
    is_attached: bool,
}

/// A volume in the status of the node whose VolumeAttachment is missing, or is not attached.
struct Suspect {
    volume: String,
    attachment: String,
    /// Whether the cache has the VolumeAttachment.
    is_known: bool,
}

/// Notes the volumes that are not attached to a node any more, and wakes it.
///
/// # Errors
/// A read failed, or the memo or the queue is full.
pub fn run(decider: &Decider, name: &str) -> Result<Outcome, Error> {
    let host = decider.host;
    let node = host.get::<Node>("", name)?;
    let Some(node) = node.filter(|node| !node.attached.is_empty()) else {
        return Ok(Outcome::Done);
    };
    let begun = host.now();
    let suspects = suspects(decider, &node)?.into_iter();
    let (known, unknown): (Vec<Suspect>, Vec<Suspect>) =
        suspects.partition(|suspect| suspect.is_known);
    let unknown = without_live(host, unknown);
    metrics::observe_verification(host, host.now().since(begun));
    let lost = known.into_iter().chain(unknown);
    note(host, &node, lost.map(|suspect| suspect.volume))
}

/// Returns the volumes of a node that are not attached by the cache. Those of drivers without attachments need none.
fn suspects(decider: &Decider, node: &Node) -> Result<Vec<Suspect>, Error> {
    let Decider { host, disks, .. } = decider;
    let name = &node.meta.name;
    let mut attachments = BTreeMap::new();
    host.list::<Row>().index(ATTACHED_TO, name).each(|row| {
        attachments.insert(row.name, row.is_attached);
        Ok(())
    })?;
    let mut suspects = Vec::new();
    for reported in &node.attached {
        let volume = &reported.name;
        let Some(source) = disks.source(volume) else {
            continue;
        };
        let attachment = source.attachment_name(name);
        let state = attachments.get(&attachment);
        if state == Some(&true) || !disks.requires_attachment(source.driver)? {
            continue;
        }
        suspects.push(Suspect {
            volume: volume.clone(),
            is_known: state.is_some(),
            attachment,
        });
    }
    Ok(suspects)
}

/// Drops the volumes that are attached by the API server, or about which it gives no answer.
fn without_live(host: &Host, suspects: Vec<Suspect>) -> Vec<Suspect> {
    let batch = suspects.iter().fold(host.live().batch(), |batch, suspect| {
        batch.get::<Attachment>("", &suspect.attachment)
    });
    let is_lost = |result: Result<flyball_sdk::live::ReadResult, ApiError>| match result {
        Ok(found) => {
            let found = found.parse::<Attachment>();
            found.is_ok_and(|found| !found.is_attached)
        }
        Err(error) => error.is_not_found(),
    };
    let results = batch.run();
    let judged = suspects.into_iter().zip(results);
    judged
        .filter_map(|(suspect, result)| is_lost(result).then_some(suspect))
        .collect()
}

/// Notes in the memory of a node that these volumes are not attached to it any more, and wakes it.
fn note(host: &Host, node: &Node, volumes: impl Iterator<Item = String>) -> Result<Outcome, Error> {
    let name = &node.meta.name;
    let before = Memory::recall(host, name, Some(node));
    let mut memory = before.clone();
    let is_attached = |volume: &String| {
        let held = before.volumes.get(volume);
        held.is_some_and(|held| held.standing == Standing::Attached)
    };
    memory.lost.extend(volumes.filter(is_attached));
    if !memory.lost.is_empty() {
        memory.store(host, name, &before)?;
        host.queue().add("", &Item::Node(name.clone()).key())?;
    }
    Ok(Outcome::Done)
}
