//! Finds the volume behind a mount, and the label that it is to be mounted with.
//!
//! Only volumes of CSI drivers, iSCSI and Fibre Channel can be mounted with a label. Volumes of other kinds never cause a
//! conflict, so that they are left out. So are volumes whose claim is not bound yet: its binding wakes the pod.
//!
//! kube-controller-manager also finds the drivers of FlexVolumes that are installed on its own disk. They can't mount with
//! a label either.
//!
//! Upstream: pkg/controller/volume/selinuxwarning/selinux_warning_controller.go: syncVolume.
//! Upstream: pkg/controller/volume/attachdetach/util/util.go: CreateVolumeSpec, createInTreeVolumeSpec,
//! getPVCFromCache, getPVSpecFromCache, translateInTreeSpecToCSIIfNeeded.
//! Upstream: pkg/volume/util/selinux.go: GetMountSELinuxLabel, SupportsSELinuxContextMount.

use std::time::Duration;

use flyball_csi_translation::{plugin_of, translate_in_tree_inline_volume, translate_in_tree_pv};
use flyball_sdk::prelude::*;
use flyball_volume_plugins::{Plugins, Volume, VolumePlugin, csi};

use crate::labels::Mount;
use crate::views::{Claim, Driver, PersistentVolume, Pod, is_ephemeral};

/// The policy by which nodes relabel the files of a volume one by one.
pub(crate) const RECURSIVE: &str = "Recursive";
/// The policy by which nodes mount a volume with a label, if they can.
const MOUNT_OPTION: &str = "MountOption";

/// A volume that a pod uses, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// Names the disk in the whole cluster, whichever PersistentVolumes it has.
    pub(crate) volume: String,
    /// The label that the volume is mounted with; empty if there is none.
    pub(crate) label: String,
    pub(crate) policy: String,
}

/// A volume as its plugin sees it.
enum Source {
    /// The name and the spec of a PersistentVolume.
    Persistent(String, Value),
    /// An entry of a pod's `spec.volumes`.
    Inline(Value),
}

impl Source {
    fn volume(&self) -> Volume<'_> {
        match self {
            Self::Persistent(name, spec) => Volume::persistent(name, spec),
            Self::Inline(entry) => Volume::of_pod(entry),
        }
    }

    /// Returns the driver of a PersistentVolume with a CSI source.
    fn driver(&self) -> Option<&str> {
        csi::persistent_source(self.volume()).map(|source| source.driver)
    }
}

/// Returns how a pod uses the volume of a mount; `None` if the volume can't cause a conflict, can't be found yet, or if
/// labels differ within the pod.
pub(crate) fn of_mount(host: &Host, pod: &Pod, mount: &Mount) -> Result<Option<Use>, Error> {
    let entry = { pod.volumes.iter() }.find(|entry| entry["name"] == mount.volume.as_str());
    let (Some(entry), Some(label)) = (entry, mount.label()) else {
        return Ok(None);
    };
    let Some(source) = source_of(host, pod, entry)? else {
        return Ok(None);
    };
    let plugins = Plugins::new(None, Duration::ZERO);
    let Some((volume, is_csi)) = unique_name(&plugins, source.volume()) else {
        return Ok(None);
    };
    let can_be_labeled = match source.driver() {
        Some(driver) => supports_labels(host, driver)?,
        None => !is_csi,
    };
    let policy = pod.security.change_policy.as_deref();
    let policy = policy.unwrap_or(MOUNT_OPTION);
    let label = match can_be_labeled && policy != RECURSIVE {
        true => label,
        false => "",
    };
    let policy = match label {
        "" => RECURSIVE,
        _ => policy,
    };
    Ok(Some(Use {
        volume,
        label: label.to_owned(),
        policy: policy.to_owned(),
    }))
}

/// Whether a pod uses a volume of a CSI driver.
pub(crate) fn uses_driver(host: &Host, pod: &Pod, driver: &str) -> Result<bool, Error> {
    for entry in &pod.volumes {
        let source = source_of(host, pod, entry)?;
        if source.is_some_and(|source| source.driver() == Some(driver)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the source of a pod's volume, translated to CSI if its kind is migrated; `None` if there is none yet.
fn source_of(host: &Host, pod: &Pod, entry: &Value) -> Result<Option<Source>, Error> {
    let Some(claim) = pod.claim_of(entry) else {
        return Ok(inline_source(pod, entry));
    };
    let found = host.get::<Claim>(&pod.meta.namespace, &claim)?;
    let is_usable = |claim: &Claim| {
        let is_own = !is_ephemeral(entry) || claim.meta.is_controlled_by(&pod.meta.uid);
        claim.is_bound() && is_own
    };
    let Some(claim) = found.filter(is_usable) else {
        return Ok(None);
    };
    let volume = host.get::<PersistentVolume>("", &claim.volume_name)?;
    let is_bound_to_it = |volume: &PersistentVolume| {
        let bound = volume.claim();
        bound.is_some_and(|(_, uid)| uid == claim.meta.uid)
    };
    Ok(volume.filter(is_bound_to_it).and_then(persistent_source))
}

fn inline_source(pod: &Pod, entry: &Value) -> Option<Source> {
    if plugin_of(entry).is_none() {
        return Some(Source::Inline(entry.clone()));
    }
    let translated = translate_in_tree_inline_volume(entry, &pod.meta.namespace);
    translated.ok().map(of_translated)
}

fn persistent_source(volume: PersistentVolume) -> Option<Source> {
    if plugin_of(&volume.spec).is_none() {
        return Some(Source::Persistent(volume.meta.name, volume.spec));
    }
    let whole = json!({"metadata": volume.meta, "spec": volume.spec});
    translate_in_tree_pv(&whole).ok().map(of_translated)
}

fn of_translated(mut volume: Value) -> Source {
    let name = volume["metadata"]["name"].as_str().unwrap_or_default();
    Source::Persistent(name.to_owned(), volume["spec"].take())
}

/// Returns the unique name of a volume that may be mounted with a label, and whether it has a CSI driver.
fn unique_name(plugins: &Plugins, volume: Volume) -> Option<(String, bool)> {
    let plugin: &dyn VolumePlugin = plugins.find_by_volume(volume).ok()?;
    let is_csi = plugin.name() == csi::NAME;
    if !is_csi && volume.source("iscsi").or(volume.source("fc")).is_none() {
        return None;
    }
    Some((plugins.unique_name(plugin, volume)?, is_csi))
}

fn supports_labels(host: &Host, driver: &str) -> Result<bool, Error> {
    let driver = host.get::<Driver>("", driver)?;
    Ok(driver.is_some_and(|driver| driver.supports_labels))
}
