//! Finds the best volume for a claim.
//!
//! A volume that is reserved for the claim comes before others, whatever its class, labels and phase. Among the others,
//! the smallest one wins. Volumes with few access modes come first: a claim must not take a volume that offers more than
//! it needs while another one fits, even a volume that is reserved for it.
//!
//! Upstream: pkg/controller/volume/persistentvolume/index.go: findByClaim, allPossibleMatchingAccessModes.
//! Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go: FindMatchingVolume,
//! CheckVolumeModeMismatches.

use std::collections::BTreeSet;

use flyball_sdk::meta::CoreObjectReference;
use flyball_sdk::prelude::*;

use crate::describe::{BY_CLAIM, BY_PHASE};
use crate::views::{Claim, modes_differ, volume_phase};

/// A volume that may suit a claim. Many are looked at for one claim, so that they are listed as rows.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolume")]
pub(crate) struct Candidate {
    #[view(path = "metadata.name")]
    pub(crate) name: String,
    #[view(path = "metadata.labels")]
    labels: LabelSet,
    #[view(path = "metadata.annotations['volume.beta.kubernetes.io/storage-class']")]
    beta_class: Option<String>,
    #[view(path = "metadata.deletionTimestamp")]
    deleted: Option<Time>,
    #[view(path = "spec.accessModes")]
    access_modes: BTreeSet<String>,
    #[view(path = "spec.capacity.storage")]
    storage: Quantity,
    #[view(path = "spec.claimRef")]
    claim: Option<CoreObjectReference>,
    #[view(path = "spec.storageClassName")]
    class: String,
    #[view(path = "spec.volumeAttributesClassName")]
    attributes_class: String,
    #[view(path = "spec.volumeMode")]
    mode: Option<String>,
    #[view(path = "status.phase")]
    phase: String,
}

impl Candidate {
    fn class(&self) -> &str {
        self.beta_class.as_deref().unwrap_or(&self.class)
    }
}

/// A search for the volume of a claim.
pub(crate) struct Search<'a> {
    pub(crate) claim: &'a Claim,
    /// Whether the scheduler chooses among the volumes that are not reserved.
    pub(crate) is_delayed: bool,
    /// Whether the feature gate VolumeAttributesClass is on.
    pub(crate) has_attributes_classes: bool,
}

impl Search<'_> {
    /// Returns the name of the best volume in the cache.
    ///
    /// # Errors
    /// The claim's selector is invalid, it has a VolumeAttributesClass although that gate is off, or a read failed.
    pub(crate) fn run(&self, host: &Host) -> Result<Option<String>, Error> {
        let meta = &self.claim.meta;
        let mut candidates = host.list::<Candidate>().index(BY_CLAIM, &meta.name).all()?;
        if !self.is_delayed {
            host.list::<Candidate>()
                .index(BY_PHASE, volume_phase::AVAILABLE)
                .each(|candidate| {
                    candidates.push(candidate);
                    Ok(())
                })?;
        }
        let best = self
            .best_of(candidates)
            .doing(|| format!("finding a volume for claim {}", meta.key()))?;
        Ok(best.map(|best| best.name))
    }

    /// Returns the best of these volumes.
    pub(crate) fn best_of(&self, volumes: Vec<Candidate>) -> Result<Option<Candidate>, Error> {
        let claim = self.claim;
        let attributes_class = claim.attributes_class.as_deref().unwrap_or_default();
        if !self.has_attributes_classes && !attributes_class.is_empty() {
            return Err(Error::failed(format!(
                "claim {} has a VolumeAttributesClass, and the feature gate VolumeAttributesClass is off",
                claim.meta.key()
            )));
        }
        let selector = match claim.selector.is_null() {
            true => None,
            false => Some(parsed(claim)?),
        };
        let rank = |volume: &Candidate| {
            let is_reserved = claim.is_named_by(volume.claim.as_ref());
            (
                volume.access_modes.len(),
                !is_reserved,
                // The size does not matter among reserved volumes.
                if is_reserved {
                    0
                } else {
                    volume.storage.nanos()
                },
                volume.name.clone(),
            )
        };
        let fitting = volumes
            .into_iter()
            .filter(|volume| self.fits(volume, selector.as_ref()));
        Ok(fitting.min_by_key(rank))
    }

    /// Whether the claim can have a volume.
    fn fits(&self, volume: &Candidate, selector: Option<&LabelSelector>) -> bool {
        let claim = self.claim;
        let attributes_class = claim.attributes_class.as_deref().unwrap_or_default();
        let is_suitable = volume.storage >= claim.storage()
            && !modes_differ(claim.mode.as_deref(), volume.mode.as_deref())
            // Without the gate, the claim has none either.
            && volume.attributes_class == attributes_class
            && volume.deleted.is_none()
            && { claim.access_modes.iter() }.all(|mode| volume.access_modes.contains(mode));
        if volume.claim.is_some() {
            return is_suitable && claim.is_named_by(volume.claim.as_ref());
        }
        is_suitable
            && !self.is_delayed
            // A volume in another phase is about to become available, or not. Its next version is looked at again.
            && volume.phase == volume_phase::AVAILABLE
            && selector.is_none_or(|selector| selector.matches(&volume.labels))
            && volume.class() == claim.class()
    }
}

fn parsed(claim: &Claim) -> Result<LabelSelector, Error> {
    LabelSelector::of_json(claim.selector.text().as_bytes())
        .map_err(|error| Error::failed(format!("its selector is invalid: {error}")))
}
