//! Brings a volume to the phase that follows from its claim, and reclaims it when the claim is gone.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: syncVolume.
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go:
//! updateVolumeMigrationAnnotationsAndFinalizers.

use flyball_sdk::meta::CoreObjectReference;
use flyball_sdk::prelude::*;

use crate::bind::unbind;
use crate::describe::CLAIMS;
use crate::migration;
use crate::names::PROVISIONED_BY;
use crate::reclaim::reclaim;
use crate::views::{Claim, Volume, modes_differ, volume_phase};
use crate::write;

/// The next step for a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No claim has it.
    Offer,
    /// Its claim does not name it yet: the claim's reconcile goes on.
    WakeClaim,
    /// Its claim can't have it, because the modes differ.
    ReportModes,
    /// It is bound in both directions.
    Confirm,
    /// Its claim is gone, or has another volume and this one was provisioned for it.
    Release,
    /// Its claim has another volume, so it is free again.
    Unbind,
}

/// Reconciles a volume.
///
/// # Errors
/// A read or a write failed.
pub(crate) fn sync(host: &Host, volume: Volume) -> Result<(), Error> {
    let volume = migrated(host, volume)?;
    let claim = match named(&volume) {
        Some(named) => current(host, &volume, named)?,
        None => None,
    };
    match step(&volume, claim.as_ref()) {
        Step::Offer => write::volume_phase(host, volume, volume_phase::AVAILABLE, "").map(drop),
        Step::Confirm => write::volume_phase(host, volume, volume_phase::BOUND, "").map(drop),
        Step::Unbind => unbind(host, volume),
        Step::WakeClaim => {
            let keys = claim.iter().map(|claim| claim.meta.key());
            for key in keys {
                host.queue().add(CLAIMS, &key)?;
            }
            Ok(())
        }
        Step::ReportModes => {
            claim
                .iter()
                .for_each(|claim| report_modes(host, &volume, claim));
            Ok(())
        }
        Step::Release => {
            let volume = match volume.is_released_or_failed() {
                // A failed attempt stays visible while it is repeated.
                true => volume,
                false => write::volume_phase(host, volume, volume_phase::RELEASED, "")?,
            };
            reclaim(host, volume)
        }
    }
}

/// Annotates a provisioned volume with the driver that replaces its plugin, and corrects its finalizers.
fn migrated(host: &Host, mut volume: Volume) -> Result<Volume, Error> {
    if let Some(change) = migration::of_volume(&volume) {
        write::update(host, Volume::KIND, &mut volume.meta, &change.patch())
            .doing(|| format!("annotating volume {}", volume.meta.name))?;
        change.apply(&mut volume.meta);
    }
    Ok(volume)
}

/// The reference to the claim that a volume is bound to. A reservation by the user has no UID.
pub(crate) fn named(volume: &Volume) -> Option<&CoreObjectReference> {
    volume.claim.as_ref().filter(|named| !named.uid.is_empty())
}

/// Returns the claim that a volume is bound to. `None` is certain: the API server has no such claim, or said so before
/// the volume was released.
fn current(
    host: &Host,
    volume: &Volume,
    named: &CoreObjectReference,
) -> Result<Option<Claim>, Error> {
    let is_same = |claim: &Claim| claim.meta.uid == named.uid;
    match host.get::<Claim>(&named.namespace, &named.name)? {
        Some(claim) if is_same(&claim) => Ok(Some(claim)),
        None if volume.is_released_or_failed() => Ok(None),
        // The claim may be newer than the cache: whoever provisioned the volume has seen it.
        _ => {
            let newest: Option<Claim> = host.live().get(&named.namespace, &named.name)?;
            Ok(newest.filter(is_same))
        }
    }
}

/// Decides on the next step. `claim` is the claim that the volume is bound to.
pub(crate) fn step(volume: &Volume, claim: Option<&Claim>) -> Step {
    let Some(claim) = claim else {
        return match named(volume) {
            Some(_) => Step::Release,
            None => Step::Offer,
        };
    };
    if claim.volume == volume.meta.name {
        return Step::Confirm;
    }
    if claim.volume.is_empty() {
        return match modes_differ(claim.mode.as_deref(), volume.mode.as_deref()) {
            // The search for a volume would not find this one.
            true => Step::ReportModes,
            false => Step::WakeClaim,
        };
    }
    let is_surplus = volume.has(PROVISIONED_BY) && volume.reclaim_policy == "Delete";
    match is_surplus {
        true => Step::Release,
        false => Step::Unbind,
    }
}

fn report_modes(host: &Host, volume: &Volume, claim: &Claim) {
    let (volume, claim) = (&volume.meta, &claim.meta);
    let message = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
        claim.name
    );
    let about = volume.reference(Volume::KIND);
    host.emit(Event::warning(&about, "VolumeMismatch", &message));
    let message = format!(
        "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
        volume.name
    );
    let about = claim.reference(Claim::KIND);
    host.emit(Event::warning(&about, "VolumeMismatch", &message));
}
