//! Whether a claim can have the volume that it names.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go: checkVolumeSatisfyClaim.
//! Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go: CheckAccessModes.

use flyball_sdk::prelude::*;

use crate::views::{Claim, Volume, modes_differ};

/// Checks that a claim can have an unclaimed volume. The error is for the claim's event.
pub(crate) fn check(
    volume: &Volume,
    claim: &Claim,
    has_attributes_classes: bool,
) -> Result<(), String> {
    if volume.meta.is_deleting() {
        return Err(format!(
            "the volume is marked for deletion {:?}",
            volume.meta.name
        ));
    }
    let size = |storage: Option<Quantity>| storage.unwrap_or_default().units();
    if size(volume.storage()) < size(Some(claim.storage())) {
        return Err("requested PV is too small".into());
    }
    if volume.class() != claim.class() {
        return Err("storageClassName does not match".into());
    }
    check_attributes_class(volume, claim, has_attributes_classes)?;
    if modes_differ(claim.mode.as_deref(), volume.mode.as_deref()) {
        return Err("incompatible volumeMode".into());
    }
    let offers = |mode: &String| volume.access_modes.contains(mode);
    if !claim.access_modes.iter().all(offers) {
        return Err("incompatible accessMode".into());
    }
    Ok(())
}

fn check_attributes_class(
    volume: &Volume,
    claim: &Claim,
    is_supported: bool,
) -> Result<(), String> {
    let [wanted, own] = [&claim.attributes_class, &volume.attributes_class]
        .map(|class| class.as_deref().unwrap_or_default());
    match is_supported {
        true if wanted != own => Err("volumeAttributesClassName does not match".into()),
        false if !wanted.is_empty() || !own.is_empty() => Err(
            "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled"
                .into(),
        ),
        _ => Ok(()),
    }
}
