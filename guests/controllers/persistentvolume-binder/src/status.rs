//! The status of claims.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: updateClaimStatus.

use flyball_sdk::prelude::*;

use crate::names::PRE_RESIZE_CAPACITY;
use crate::views::{Claim, ClaimStatus, STORAGE, Volume, claim_phase};

/// The status of a claim without a volume.
pub(crate) fn of_unbound(claim: &Claim, phase: &str) -> ClaimStatus {
    ClaimStatus {
        phase: phase.into(),
        access_modes: None,
        capacity: None,
        current_volume_attributes_class_name: None,
        ..claim.status.clone()
    }
}

/// The status of a claim that is bound to this volume.
///
/// The capacity and the VolumeAttributesClass are set when the claim becomes bound. Later they belong to resizers: the
/// file system of a claim may be smaller than its volume.
///
/// # Errors
/// The volume has no capacity.
pub(crate) fn of_bound(
    claim: &Claim,
    volume: &Volume,
    has_attributes_classes: bool,
) -> Result<ClaimStatus, Error> {
    let mut status = claim.status.clone();
    status.phase = claim_phase::BOUND.into();
    if status.access_modes.as_ref().unwrap_or(&Vec::new()) != &volume.access_modes {
        status.access_modes = Some(volume.access_modes.clone());
    }
    if claim.phase() == claim_phase::BOUND {
        return Ok(status);
    }
    set_capacity(&mut status, volume)?;
    if has_attributes_classes && claim.phase() == claim_phase::PENDING {
        let class = &volume.attributes_class;
        status
            .current_volume_attributes_class_name
            .clone_from(class);
    }
    Ok(status)
}

fn set_capacity(status: &mut ClaimStatus, volume: &Volume) -> Result<(), Error> {
    let name = &volume.meta.name;
    let Some(capacity) = volume.storage() else {
        return Err(Error::failed(format!(
            "PersistentVolume {name:?} is without a storage capacity"
        )));
    };
    let Some(before_resize) = volume.meta.annotation(PRE_RESIZE_CAPACITY) else {
        if storage_of(status) != Some(capacity) {
            status.capacity = Some(volume.capacity.clone());
        }
        return Ok(());
    };
    let capacity = before_resize.parse().unwrap_or(capacity);
    let amounts = status.capacity.get_or_insert_default();
    amounts.insert(STORAGE.into(), json!(capacity));
    Ok(())
}

fn storage_of(status: &ClaimStatus) -> Option<Quantity> {
    let text = status.capacity.as_ref()?.get(STORAGE)?.as_str()?;
    text.parse().ok()
}
