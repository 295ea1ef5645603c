//! Finds the claims and volumes that are reconciled again in each period. Claims without a volume are retried only so:
//! no change of another object wakes them.
//!
//! kube-controller-manager enqueues all claims and volumes in each period. Most are bound to each other, and their
//! reconciles would do nothing, so they are left out here.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go: resync.

use std::collections::BTreeMap;

use flyball_sdk::meta::CoreObjectReference;
use flyball_sdk::prelude::*;
use flyball_volume_plugins::IN_TREE;

use crate::describe::{CLAIMS, VOLUMES};
use crate::views::{claim_phase, volume_phase};

/// A claim, as far as it matters whether it is settled.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub(crate) struct ClaimRow {
    #[view(path = "metadata.namespace")]
    namespace: String,
    #[view(path = "metadata.name")]
    name: String,
    #[view(path = "metadata.uid")]
    uid: String,
    #[view(path = "metadata.annotations['pv.kubernetes.io/bind-completed']")]
    bind_completed: Option<String>,
    #[view(path = "metadata.annotations['volume.kubernetes.io/storage-provisioner']")]
    provisioner: Option<String>,
    #[view(path = "metadata.annotations['volume.beta.kubernetes.io/storage-provisioner']")]
    beta_provisioner: Option<String>,
    #[view(path = "metadata.annotations['pv.kubernetes.io/migrated-to']")]
    migrated_to: Option<String>,
    #[view(path = "spec.volumeName")]
    volume: String,
    #[view(path = "status.phase")]
    phase: String,
    #[view(path = "status.accessModes")]
    access_modes: Vec<String>,
}

/// A volume, as far as it matters whether it is settled.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub(crate) struct VolumeRow {
    #[view(path = "metadata.name")]
    name: String,
    #[view(path = "metadata.annotations['pv.kubernetes.io/provisioned-by']")]
    provisioner: Option<String>,
    #[view(path = "metadata.annotations['pv.kubernetes.io/migrated-to']")]
    migrated_to: Option<String>,
    #[view(path = "spec.accessModes")]
    access_modes: Vec<String>,
    #[view(path = "spec.claimRef")]
    claim: Option<CoreObjectReference>,
    #[view(path = "spec.persistentVolumeReclaimPolicy")]
    reclaim_policy: String,
    #[view(path = "status.phase")]
    phase: String,
}

/// The claims and volumes to reconcile.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Due {
    pub(crate) claims: Vec<Key>,
    pub(crate) volumes: Vec<String>,
}

/// Enqueues the claims and volumes that are not settled.
///
/// # Errors
/// A read failed, or a queue is full.
pub(crate) fn run(host: &Host) -> Result<(), Error> {
    let claims = host.list::<ClaimRow>().all()?;
    let volumes = host.list::<VolumeRow>().all()?;
    let due = due(&claims, &volumes);
    for claim in &due.claims {
        host.queue().add(CLAIMS, claim)?;
    }
    for volume in &due.volumes {
        host.queue().add(VOLUMES, &Key::new("", volume))?;
    }
    Ok(())
}

/// Decides which claims and volumes are not settled.
pub(crate) fn due(claims: &[ClaimRow], volumes: &[VolumeRow]) -> Due {
    let by_name: BTreeMap<&str, &VolumeRow> = volumes
        .iter()
        .map(|volume| (volume.name.as_str(), volume))
        .collect();
    let by_uid: BTreeMap<&str, &ClaimRow> = claims
        .iter()
        .map(|claim| (claim.uid.as_str(), claim))
        .collect();
    let is_due = |claim: &&ClaimRow| !is_bound(claim, by_name.get(claim.volume.as_str()).copied());
    let key = |claim: &ClaimRow| Key::new(&claim.namespace, &claim.name);
    Due {
        claims: claims.iter().filter(is_due).map(key).collect(),
        volumes: volumes
            .iter()
            .filter(|volume| !is_settled(volume, &by_uid))
            .map(|volume| volume.name.clone())
            .collect(),
    }
}

/// Whether a claim is bound in both directions, and its status says so.
fn is_bound(claim: &ClaimRow, volume: Option<&VolumeRow>) -> bool {
    let provisioner = claim
        .provisioner
        .as_ref()
        .or(claim.beta_provisioner.as_ref());
    claim.phase == claim_phase::BOUND
        && !may_migrate(provisioner, claim.migrated_to.as_ref())
        && claim.bind_completed.is_some()
        && volume.is_some_and(|volume| {
            volume.phase == volume_phase::BOUND && volume.access_modes == claim.access_modes && {
                volume.claim.as_ref()
            }
            .is_some_and(|named| named.uid == claim.uid)
        })
}

/// Whether the phase of a volume follows from its claim, and nothing is to be reclaimed.
fn is_settled(volume: &VolumeRow, claims: &BTreeMap<&str, &ClaimRow>) -> bool {
    if may_migrate(volume.provisioner.as_ref(), volume.migrated_to.as_ref()) {
        return false;
    }
    let named = volume.claim.as_ref().filter(|named| !named.uid.is_empty());
    let Some(named) = named else {
        return volume.phase == volume_phase::AVAILABLE;
    };
    match claims.get(named.uid.as_str()) {
        Some(claim) => claim.volume == volume.name && volume.phase == volume_phase::BOUND,
        None => volume.phase == volume_phase::RELEASED && volume.reclaim_policy == "Retain",
    }
}

/// Whether annotations and finalizers may have to be corrected, because an in-tree plugin provisioned the volume.
fn may_migrate(provisioner: Option<&String>, migrated_to: Option<&String>) -> bool {
    migrated_to.is_some() || provisioner.is_some_and(|name| name.starts_with(IN_TREE))
}
