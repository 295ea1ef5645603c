//! Disks: from the volume of a pod, or a VolumeAttachment, to what a plugin attaches.
//!
//! Upstream: pkg/controller/volume/attachdetach/util/util.go: createInTreeVolumeSpec,
//! CreateVolumeSpecWithNodeMigration, getPVCFromCache, getPVSpecFromCache, translateInTreeSpecToCSIOnNodeIfNeeded.
//! Upstream: pkg/volume/util/util.go: GetUniqueVolumeNameFromSpec, IsMultiAttachAllowed.
//! Upstream: pkg/controller/volume/attachdetach/attach_detach_controller.go: processVolumeAttachments.
//! Upstream: staging/src/k8s.io/component-helpers/storage/ephemeral/ephemeral.go: VolumeClaimName, VolumeIsForPod.

use std::cell::RefCell;
use std::collections::BTreeMap;

use flyball_csi_translation::{plugin_of, translate_in_tree_inline_volume, translate_in_tree_pv};
use flyball_sdk::prelude::*;
use flyball_volume_plugins::steps::Attaching;
use flyball_volume_plugins::{Plugins, Volume, VolumePlugin, csi, qualified_name};

use crate::views::{Attachment, Claim, Driver, PersistentVolume, Pod};

/// A volume as its plugin sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// The name of the PersistentVolume, also of the one that a pod's volume was translated to; else that of the volume
    /// within the pod. Events show it.
    pub name: String,
    /// The spec of the PersistentVolume, or the entry of the pod.
    spec: Value,
    source: Source,
    /// Whether it is of a kind that was replaced by CSI.
    pub is_migrated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    PersistentVolume,
    Pod,
    /// A PersistentVolume that exists nowhere else.
    TranslatedPod,
}

impl Disk {
    fn volume(&self) -> Volume<'_> {
        match self.source {
            Source::Pod => Volume::of_pod(&self.spec),
            Source::PersistentVolume | Source::TranslatedPod => {
                Volume::persistent(&self.name, &self.spec)
            }
        }
    }

    /// Whether only one node at a time may have it attached.
    pub fn is_exclusive(&self) -> bool {
        !self.volume().allows_multi_attach()
    }

    /// The name of its PersistentVolume.
    pub fn persistent_volume(&self) -> Option<&str> {
        (self.source == Source::PersistentVolume).then_some(&*self.name)
    }

    /// How a plugin attaches it to a node.
    pub fn attaching(&self, plugin: &dyn VolumePlugin, node: &str) -> Attaching {
        let inline = match self.source {
            Source::TranslatedPod if plugin.name() == csi::NAME => {
                csi::inline_attachment(&self.spec, node)
            }
            _ => None,
        };
        inline.map_or_else(|| plugin.attach(self.volume(), node), Attaching::Attachment)
    }
}

/// What a volume of a pod is.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolved {
    Disk(Disk),
    /// The volume of a claim that is not bound, or not any more.
    Unbound(Unbound),
    /// No disk: it can't be translated, or its claim belongs to another pod.
    Nothing,
}

/// A claim without a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unbound {
    pub claim: Key,
    /// The volume that the claim names all the same; empty if none.
    pub volume: String,
}

/// Finds disks and their plugins. It lives for one call.
pub struct Disks<'a> {
    host: &'a Host<'a>,
    pub plugins: &'a Plugins,
    /// Whether the volumes of each CSI driver that was asked for need an attachment.
    drivers: RefCell<BTreeMap<String, bool>>,
}

impl<'a> Disks<'a> {
    pub fn new(host: &'a Host<'a>, plugins: &'a Plugins) -> Self {
        Self {
            host,
            plugins,
            drivers: RefCell::default(),
        }
    }

    /// Resolves a volume of a pod.
    ///
    /// # Errors
    /// A read failed, or an object is malformed.
    pub fn of_pod(&self, pod: &Pod, entry: &Value) -> Result<Resolved, Error> {
        match claim_of(pod, entry) {
            Some(name) => self.of_claim(pod, &name, entry["ephemeral"].is_object()),
            None => Ok(inline(entry, &pod.meta.namespace)),
        }
    }

    fn of_claim(&self, pod: &Pod, name: &str, is_ephemeral: bool) -> Result<Resolved, Error> {
        let namespace = &pod.meta.namespace;
        let claim = self.host.get::<Claim>(namespace, name)?.unwrap_or_default();
        let is_found = !claim.meta.uid.is_empty();
        if is_found && is_ephemeral && !claim.meta.is_controlled_by(&pod.meta.uid) {
            return Ok(Resolved::Nothing);
        }
        if claim.is_bound()
            && let Some(volume) = self.host.get::<PersistentVolume>("", &claim.volume)?
            && volume.claim_uid() == Some(&claim.meta.uid)
        {
            return Ok(persistent(volume).map_or(Resolved::Nothing, Resolved::Disk));
        }
        Ok(Resolved::Unbound(Unbound {
            claim: Key::new(namespace, name),
            volume: claim.volume,
        }))
    }

    /// Returns the disk of a VolumeAttachment; `None` if its PersistentVolume does not exist or can't be translated.
    ///
    /// # Errors
    /// A read failed, or an object is malformed.
    pub fn of_attachment(&self, attachment: &Attachment) -> Result<Option<Disk>, Error> {
        match &attachment.volume {
            Some(name) => self.of_persistent_volume(name),
            None if attachment.inline.is_object() => Ok(Some(Disk {
                name: String::new(),
                spec: attachment.inline.clone(),
                source: Source::TranslatedPod,
                is_migrated: true,
            })),
            None => Ok(None),
        }
    }

    /// Returns the disk of a PersistentVolume, as [`of_attachment`](Self::of_attachment) does.
    ///
    /// # Errors
    /// A read failed, or the object is malformed.
    pub fn of_persistent_volume(&self, name: &str) -> Result<Option<Disk>, Error> {
        let volume = self.host.get::<PersistentVolume>("", name)?;
        Ok(volume.and_then(persistent))
    }

    /// Returns the plugin that handles a disk, if it is one that attaches; whether this disk needs it is another question.
    pub fn plugin(&self, disk: &Disk) -> Option<&'a dyn VolumePlugin> {
        use flyball_volume_plugins::steps::Operation::Attach;
        let plugin = self.plugins.find_by_volume(disk.volume()).ok()?;
        plugin.operations().contains(&Attach).then_some(plugin)
    }

    /// Returns the name of a disk's plugin in metrics.
    pub fn label(&self, disk: &Disk) -> Option<String> {
        let plugin = self.plugin(disk)?;
        Some(qualified_name(plugin, disk.volume()))
    }

    /// Returns the same as [`label`](Self::label), given the unique name of a volume.
    pub fn label_of(&self, volume: &str) -> Option<String> {
        let (plugin, _) = self.plugins.split_unique_name(volume)?;
        let plugin = plugin.name();
        Some(match self.source(volume) {
            Some(source) => format!("{plugin}:{}", source.driver),
            None => plugin.into(),
        })
    }

    /// Returns the driver and the handle in the unique name of a CSI volume. Kube-controller-manager can attach a volume
    /// whose handle has a `^`, but not detach it.
    pub fn source<'v>(&self, volume: &'v str) -> Option<csi::Source<'v>> {
        let (plugin, name) = self.plugins.split_unique_name(volume)?;
        let (driver, handle) = name
            .split_once('^')
            .filter(|_| plugin.name() == csi::NAME)?;
        Some(csi::Source { driver, handle })
    }

    /// Returns the name of the VolumeAttachment of a volume at a node; `None` if its plugin has none.
    pub fn attachment_name(&self, volume: &str, node: &str) -> Option<String> {
        Some(self.source(volume)?.attachment_name(node))
    }

    /// Returns the name of a disk in the status of nodes; `None` if no plugin attaches it.
    pub fn unique_name(&self, disk: &Disk) -> Option<String> {
        self.plugins.unique_name(self.plugin(disk)?, disk.volume())
    }

    /// Whether a disk has to be attached. Volumes of a driver without a CSIDriver have to be, too.
    ///
    /// # Errors
    /// A read failed, or the CSIDriver is malformed.
    pub fn must_be_attached(&self, disk: &Disk) -> Result<bool, Error> {
        let mut failure = None;
        let requires = |driver: &str| {
            let required = self.requires_attachment(driver);
            required.unwrap_or_else(|error| {
                failure = Some(error);
                true
            })
        };
        let found = self.plugins.find_attachable(disk.volume(), requires);
        let must = matches!(found, Ok(Some(_)));
        failure.map_or(Ok(must), Err)
    }

    /// Whether the volumes of a CSI driver need an attachment.
    ///
    /// # Errors
    /// A read failed, or the CSIDriver is malformed.
    pub fn requires_attachment(&self, driver: &str) -> Result<bool, Error> {
        if let Some(known) = self.drivers.borrow().get(driver) {
            return Ok(*known);
        }
        let found = self.host.get::<Driver>("", driver)?;
        let requires = found.is_none_or(|driver| driver.requires_attachment());
        let mut drivers = self.drivers.borrow_mut();
        drivers.insert(driver.into(), requires);
        Ok(requires)
    }
}

/// Returns the name of the claim of a pod's volume.
fn claim_of(pod: &Pod, entry: &Value) -> Option<String> {
    if entry["ephemeral"].is_object() {
        let volume = entry["name"].as_str().unwrap_or_default();
        return Some(format!("{}-{volume}", pod.meta.name));
    }
    let name = entry["persistentVolumeClaim"]["claimName"].as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Resolves a volume without a claim.
fn inline(entry: &Value, namespace: &str) -> Resolved {
    if plugin_of(entry).is_none() {
        let name = entry["name"].as_str().unwrap_or_default();
        return Resolved::Disk(Disk {
            name: name.into(),
            spec: entry.clone(),
            source: Source::Pod,
            is_migrated: false,
        });
    }
    match translate_in_tree_inline_volume(entry, namespace) {
        Ok(mut translated) => Resolved::Disk(Disk {
            name: name_of(&translated),
            spec: translated["spec"].take(),
            source: Source::TranslatedPod,
            is_migrated: true,
        }),
        Err(_) => Resolved::Nothing,
    }
}

/// Returns the disk of a PersistentVolume; `None` if it can't be translated.
fn persistent(volume: PersistentVolume) -> Option<Disk> {
    let PersistentVolume { meta, spec } = volume;
    let is_migrated = plugin_of(&spec).is_some();
    let spec = match is_migrated {
        false => spec,
        true => {
            let whole = json!({"metadata": meta, "spec": spec});
            translate_in_tree_pv(&whole).ok()?["spec"].take()
        }
    };
    Some(Disk {
        name: meta.name,
        spec,
        source: Source::PersistentVolume,
        is_migrated,
    })
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .into()
}
