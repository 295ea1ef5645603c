//! Does what the reclaim policy of a released volume says.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: reclaimVolume, isVolumeReleased,
//! getProvisionerNameFromVolume.

use flyball_csi_translation::csi_name_from_in_tree_name;
use flyball_sdk::prelude::*;
use flyball_volume_plugins::NOT_AVAILABLE;

use crate::delete;
use crate::names::MIGRATED_TO;
use crate::recycle;
use crate::views::{Claim, Class, Volume};
use crate::volume::named;
use crate::write;

/// Reclaims a released volume, as far as that is this controller's work and is possible now.
///
/// # Errors
/// A read or a write failed.
pub(crate) fn reclaim(host: &Host, volume: Volume) -> Result<(), Error> {
    let migrated_to = volume.meta.annotation(MIGRATED_TO).unwrap_or_default();
    if !migrated_to.is_empty() {
        // An external provisioner does it.
        return Ok(());
    }
    match volume.reclaim_policy.as_str() {
        "Retain" => Ok(()),
        "Recycle" => recycle::sync(host, volume),
        "Delete" => delete::sync(host, volume),
        _ => write::fail_volume(
            host,
            volume,
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy",
        ),
    }
}

/// A released volume, as the API server has it.
pub(crate) struct Released {
    pub(crate) volume: Volume,
    pub(crate) spec: Value,
}

/// Reads a volume before data is destroyed. `None` if it is gone, not released any more, or has another policy now.
///
/// # Errors
/// A read failed.
pub(crate) fn newest(host: &Host, known: &Volume) -> Result<Option<Released>, Error> {
    let name = &known.meta.name;
    let Some(object) = host
        .live()
        .get_of::<Value>(Volume::KIND, "", name, &["."])?
    else {
        return Ok(None);
    };
    let spec = object["spec"].clone();
    let volume: Volume = flyball_sdk::serde_json::from_value(object)
        .map_err(|error| Error::malformed(format!("PersistentVolume {name}"), error))?;
    let is_known =
        volume.meta.uid == known.meta.uid && volume.reclaim_policy == known.reclaim_policy;
    let Some(named) = named(&volume).filter(|_| is_known) else {
        return Ok(None);
    };
    let is_same = |claim: &Claim| claim.meta.uid == named.uid;
    let cached: Option<Claim> = host.get(&named.namespace, &named.name)?;
    let claim = match cached.filter(is_same) {
        Some(claim) => Some(claim),
        // The user may have given the volume to a claim that the cache does not have yet.
        None => host.live().get(&named.namespace, &named.name)?,
    };
    let has_volume = |claim: Claim| claim.volume.is_empty() || claim.volume == *name;
    if claim.filter(is_same).is_some_and(has_volume) {
        return Ok(None);
    }
    Ok(Some(Released { volume, spec }))
}

/// The provisioner that deletes a volume, for metrics: that of its class if it is an external one. Volumes can be
/// annotated with arbitrary names.
///
/// # Errors
/// A read failed.
pub(crate) fn external_provisioner(host: &Host, volume: &Volume) -> Result<String, Error> {
    let class = host.get::<Class>("", volume.class())?;
    let Some(provisioner) = class.map(|class| class.provisioner) else {
        return Ok(NOT_AVAILABLE.into());
    };
    Ok(csi_name_from_in_tree_name(&provisioner).map_or(provisioner, str::to_owned))
}
