//! Binds a claim and a volume to each other, and undoes that.
//!
//! A binding takes up to four writes: the volume's reference to the claim, its phase, the claim's name of the volume,
//! and its status. Each is left out if nothing would change. A process that ends in between leaves a state from which
//! the next reconcile of the claim takes the missing steps.
//!
//! The volume is written first, under the condition that nobody has changed it. So of two claims that want it, only one
//! gets it. If both writes of the volume are left out, an old cache may be the reason: the volume is then read again
//! before the claim is written.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: bind, bindVolumeToClaim,
//! updateBindVolumeToClaim, bindClaimToVolume, updateVolumePhase, updateClaimStatus, unbindVolume.
//! Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go: GetBindVolumeToClaim.

use flyball_sdk::meta::CoreObjectReference;
use flyball_sdk::prelude::*;

use crate::names::{BIND_COMPLETED, BOUND_BY_CONTROLLER, YES};
use crate::status;
use crate::views::{Claim, Volume, claim_phase, volume_phase};
use crate::write;

/// Binds a volume and a claim, as far as that is still to be done.
///
/// # Errors
/// A write failed. The next reconcile of the claim goes on from there.
pub(crate) fn bind(
    host: &Host,
    volume: Volume,
    claim: Claim,
    has_attributes_classes: bool,
) -> Result<(), Error> {
    let version = volume.meta.resource_version.clone();
    let volume = match reservation(&volume, &claim) {
        Some(change) => reserve(host, volume, &claim, &change)?,
        None => volume,
    };
    let volume = write::volume_phase(host, volume, volume_phase::BOUND, "")?;
    let claim = match completion(&claim, &volume) {
        Some(change) => {
            if volume.meta.resource_version == version {
                check_reservation(host, &volume, &claim)?;
            }
            complete(host, claim, &volume, &change)?
        }
        None => claim,
    };
    let bound = status::of_bound(&claim, &volume, has_attributes_classes)?;
    write::claim_status(host, claim, bound).map(drop)
}

/// The change that makes a volume refer to a claim; `None` if it does already.
pub(crate) fn reservation(volume: &Volume, claim: &Claim) -> Option<Value> {
    let is_ours = claim.is_named_by(volume.claim.as_ref());
    let is_complete = is_ours
        && volume
            .claim
            .as_ref()
            .is_some_and(|named| named.uid == claim.meta.uid);
    let needs_annotation = !is_ours && !volume.is_bound_by_controller();
    if is_complete {
        return None;
    }
    let reference = CoreObjectReference::to(Claim::KIND, &claim.meta);
    let mut change = json!({"spec": {"claimRef": reference}});
    if needs_annotation {
        change["metadata"]["annotations"][BOUND_BY_CONTROLLER] = YES.into();
    }
    Some(change)
}

/// The change that makes a claim name its volume for good; `None` if it does already.
pub(crate) fn completion(claim: &Claim, volume: &Volume) -> Option<Value> {
    let mut change = json!({});
    if claim.volume != volume.meta.name {
        change["spec"]["volumeName"] = volume.meta.name.as_str().into();
        if !claim.has(BOUND_BY_CONTROLLER) {
            change["metadata"]["annotations"][BOUND_BY_CONTROLLER] = YES.into();
        }
    }
    if !claim.has(BIND_COMPLETED) {
        change["metadata"]["annotations"][BIND_COMPLETED] = YES.into();
    }
    (change != json!({})).then_some(change)
}

fn reserve(
    host: &Host,
    mut volume: Volume,
    claim: &Claim,
    change: &Value,
) -> Result<Volume, Error> {
    write::update(host, Volume::KIND, &mut volume.meta, change)?;
    volume.claim = Some(CoreObjectReference::to(Claim::KIND, &claim.meta));
    Ok(volume)
}

fn complete(
    host: &Host,
    mut claim: Claim,
    volume: &Volume,
    change: &Value,
) -> Result<Claim, Error> {
    write::update(host, Claim::KIND, &mut claim.meta, change)?;
    claim.volume.clone_from(&volume.meta.name);
    Ok(claim)
}

/// Fails unless the API server's version of the volume refers to the claim, too.
fn check_reservation(host: &Host, volume: &Volume, claim: &Claim) -> Result<(), Error> {
    let newest: Option<Volume> = host.live().get("", &volume.meta.name)?;
    let is_ours = newest.is_some_and(|newest| {
        newest
            .claim
            .is_some_and(|named| named.uid == claim.meta.uid)
    });
    match is_ours {
        true => Ok(()),
        false => Err(Error::failed(format!(
            "volume {} is no longer bound to claim {}",
            volume.meta.name,
            claim.meta.key()
        ))),
    }
}

/// Makes a volume available again. A reservation by the user stays, without the claim's UID.
///
/// # Errors
/// A write failed.
pub(crate) fn unbind(host: &Host, mut volume: Volume) -> Result<(), Error> {
    let change = match volume.is_bound_by_controller() {
        true => json!({
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: null}},
            "spec": {"claimRef": null},
        }),
        false => json!({"spec": {"claimRef": {"uid": null}}}),
    };
    write::update(host, Volume::KIND, &mut volume.meta, &change)
        .doing(|| format!("unbinding volume {}", volume.meta.name))?;
    write::volume_phase(host, volume, volume_phase::AVAILABLE, "").map(drop)
}

/// Marks a claim as lost, once.
///
/// # Errors
/// The write failed.
pub(crate) fn lose(host: &Host, claim: Claim, reason: &str, message: &str) -> Result<(), Error> {
    if claim.phase() == claim_phase::LOST {
        return Ok(());
    }
    let lost = status::of_unbound(&claim, claim_phase::LOST);
    let claim = write::claim_status(host, claim, lost)?;
    host.emit(Event::warning(
        &claim.meta.reference(Claim::KIND),
        reason,
        message,
    ));
    Ok(())
}
