//! The annotations and finalizers of claims and volumes whose in-tree plugin a CSI driver has replaced, and the
//! finalizer of volumes that an in-tree plugin has provisioned.
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go: updateMigrationAnnotations,
//! modifyDeletionFinalizers, updateVolumeMigrationAnnotationsAndFinalizers, setClaimProvisioner.

use flyball_csi_translation::{csi_name_from_in_tree_name, is_migrated};
use flyball_sdk::finalizer;
use flyball_sdk::prelude::*;
use flyball_volume_plugins::IN_TREE;

use crate::names::{
    BETA_PROVISIONER, EXTERNAL_FINALIZER, IN_TREE_FINALIZER, MIGRATED_TO, PROVISIONED_BY,
    PROVISIONER,
};
use crate::views::Volume;

/// A change of an object's annotations and finalizers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Change {
    /// The annotations to set, or to remove.
    annotations: Vec<(&'static str, Option<String>)>,
    /// All finalizers, if they change.
    finalizers: Option<Vec<String>>,
}

impl Change {
    /// The change as a merge patch.
    pub(crate) fn patch(&self) -> Value {
        let mut patch = json!({});
        for (key, value) in &self.annotations {
            patch["metadata"]["annotations"][*key] = json!(value);
        }
        if let Some(finalizers) = &self.finalizers {
            patch["metadata"]["finalizers"] = json!(finalizers);
        }
        patch
    }

    /// Applies the change to what was read.
    pub(crate) fn apply(self, meta: &mut Meta) {
        for (key, value) in self.annotations {
            match value {
                Some(value) => drop(meta.annotations.insert(key.into(), value)),
                None => drop(meta.annotations.remove(key)),
            }
        }
        if let Some(finalizers) = self.finalizers {
            meta.finalizers = finalizers;
        }
    }

    fn unless_empty(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The change that a claim needs, which follows from its provisioner.
pub(crate) fn of_claim(meta: &Meta) -> Option<Change> {
    let provisioner = meta.annotation(PROVISIONER);
    let provisioner = provisioner.or_else(|| meta.annotation(BETA_PROVISIONER))?;
    let annotations = driver_change(meta, provisioner).into_iter().collect();
    let finalizers = None;
    Change {
        annotations,
        finalizers,
    }
    .unless_empty()
}

/// The change that asks a provisioner for the volume of a claim; `None` if the claim has it.
pub(crate) fn asking(meta: &Meta, provisioner: &str) -> Option<Change> {
    if meta.annotation(PROVISIONER) == Some(provisioner) {
        return None;
    }
    let names = [BETA_PROVISIONER, PROVISIONER];
    let names = names.map(|key| (key, Some(provisioner.to_owned())));
    let annotations = names.into_iter().chain(driver_change(meta, provisioner));
    Some(Change {
        annotations: annotations.collect(),
        finalizers: None,
    })
}

/// The change that a volume needs, which follows from the provisioner that created it.
pub(crate) fn of_volume(volume: &Volume) -> Option<Change> {
    let provisioner = volume.meta.annotation(PROVISIONED_BY)?;
    let finalizers = finalizers(volume, provisioner);
    Change {
        annotations: driver_change(&volume.meta, provisioner)
            .into_iter()
            .collect(),
        finalizers: (finalizers != volume.meta.finalizers).then_some(finalizers),
    }
    .unless_empty()
}

/// The change of the annotation that names the driver.
fn driver_change(meta: &Meta, provisioner: &str) -> Option<(&'static str, Option<String>)> {
    let driver = csi_name_from_in_tree_name(provisioner);
    let annotated = meta.annotation(MIGRATED_TO).filter(|name| !name.is_empty());
    (driver != annotated).then(|| (MIGRATED_TO, driver.map(str::to_owned)))
}

/// The finalizers that a provisioned volume should have.
fn finalizers(volume: &Volume, provisioner: &str) -> Vec<String> {
    let meta = &volume.meta;
    let without = |unwanted: &[&str]| {
        let kept = |own: &&String| !unwanted.contains(&own.as_str());
        meta.finalizers.iter().filter(kept).cloned().collect()
    };
    if is_migrated(provisioner) {
        return without(&[IN_TREE_FINALIZER]);
    }
    if !provisioner.starts_with(IN_TREE) {
        return meta.finalizers.clone();
    }
    match volume.reclaim_policy.as_str() {
        "Delete" => {
            let mut wanted: Vec<String> = without(&[EXTERNAL_FINALIZER]);
            // The API server refuses a new finalizer of a volume that is being deleted.
            if finalizer::is_missing(meta, IN_TREE_FINALIZER) {
                wanted.push(IN_TREE_FINALIZER.into());
            }
            wanted
        }
        "Retain" | "Recycle" => without(&[EXTERNAL_FINALIZER, IN_TREE_FINALIZER]),
        _ => without(&[EXTERNAL_FINALIZER]),
    }
}
