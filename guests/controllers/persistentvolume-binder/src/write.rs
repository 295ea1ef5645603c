//! The writes of volumes and claims. Each fails with a conflict if the object has changed since it was read, and leaves
//! the new version in the metadata, so that the next write of the same object can follow.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: updateVolumePhase,
//! updateVolumePhaseWithEvent, updateClaimStatus.

use flyball_sdk::prelude::*;
use serde::Deserialize;

use crate::views::{Claim, ClaimStatus, Volume, VolumeStatus, volume_phase as phases};

/// The field that writes return.
const VERSION: &[&str] = &["metadata.resourceVersion"];

#[derive(Deserialize)]
struct Written {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

/// Updates an object by a merge patch.
///
/// # Errors
/// The write failed.
pub(crate) fn update(
    host: &Host,
    kind: &str,
    meta: &mut Meta,
    change: &Value,
) -> Result<(), Error> {
    let answer = host.write(Write::update(kind, meta, change).returning(VERSION))?;
    follow(meta, &answer)
}

/// Sets the phase of a volume, unless it has it.
///
/// # Errors
/// The write failed.
pub(crate) fn volume_phase(
    host: &Host,
    mut volume: Volume,
    phase: &str,
    message: &str,
) -> Result<Volume, Error> {
    if volume.phase() == phase {
        return Ok(volume);
    }
    let status = VolumeStatus {
        phase: phase.into(),
        message: message.into(),
        ..volume.status.clone()
    };
    let write = Write::update_status(Volume::KIND, &volume.meta, &status);
    let answer = host.write(write.returning(VERSION))?;
    follow(&mut volume.meta, &answer)?;
    volume.status = status;
    Ok(volume)
}

/// Marks a volume as failed, and says why in its status and in an event, once.
///
/// # Errors
/// The write failed.
pub(crate) fn fail_volume(
    host: &Host,
    volume: Volume,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    if volume.phase() == phases::FAILED {
        return Ok(());
    }
    let volume = volume_phase(host, volume, phases::FAILED, message)?;
    let about = volume.meta.reference(Volume::KIND);
    host.emit(Event::warning(&about, reason, message));
    Ok(())
}

/// Sets the status of a claim, unless it has it.
///
/// # Errors
/// The write failed.
pub(crate) fn claim_status(
    host: &Host,
    mut claim: Claim,
    status: ClaimStatus,
) -> Result<Claim, Error> {
    if claim.status == status {
        return Ok(claim);
    }
    let write = Write::update_status(Claim::KIND, &claim.meta, &status);
    let answer = host.write(write.returning(VERSION))?;
    follow(&mut claim.meta, &answer)?;
    claim.status = status;
    Ok(claim)
}

/// Takes over the version that a write returned.
fn follow(meta: &mut Meta, answer: &Answer) -> Result<(), Error> {
    let written: Written = answer.parse()?;
    meta.resource_version = written.metadata.resource_version;
    Ok(())
}
