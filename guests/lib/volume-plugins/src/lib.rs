//! The volume plugins of kube-controller-manager: which one handles a volume, and how it recycles, deletes, provisions
//! and attaches volumes.
//!
//! A plugin does nothing itself: it returns each step as data ([`Recycling`], [`Deletion`], [`Provisioning`],
//! [`Attaching`]), and the controller carries the step out. So a plugin needs no memory and no host.
//!
//! | plugin | recycles | deletes | provisions | attaches |
//! |---|---|---|---|---|
//! | `kubernetes.io/host-path` | with a pod | paths below `/tmp` | with `--enable-hostpath-provisioner` | |
//! | `kubernetes.io/nfs` | with a pod | | | |
//! | `kubernetes.io/fc`, `kubernetes.io/iscsi` | | | | at once |
//! | `kubernetes.io/csi` | | | | with a VolumeAttachment |
//!
//! The config value `volume-plugin` replaces all of them by a [mock](mock::Mock), for tests.
//!
//! ```
//! use std::time::Duration;
//!
//! use flyball_volume_plugins::{Plugins, Volume};
//! use serde_json::json;
//!
//! let plugins = Plugins::new(None, Duration::ZERO);
//! let spec = json!({"csi": {"driver": "csi.example.com", "volumeHandle": "disk-1"}});
//! let volume = Volume::persistent("pv-1", &spec);
//! let plugin = plugins.find_attachable(volume, |_driver| true).unwrap().unwrap();
//! assert_eq!(
//!     plugins.unique_name(plugin, volume).as_deref(),
//!     Some("kubernetes.io/csi/csi.example.com^disk-1"),
//! );
//! ```
//!
//! Upstream: cmd/kube-controller-manager/app/plugins.go.
//! Upstream: pkg/volume/plugins.go.
//! Upstream: pkg/volume/util/util.go: GetUniqueVolumeName, GetUniqueVolumeNameFromSpec, SplitUniqueName,
//! IsMultiAttachAllowed.
//! Upstream: pkg/volume/util/metrics.go: GetFullQualifiedPluginNameForVolume.

use std::fmt;
use std::time::Duration;

use flyball_sdk::{Error, Host};
use serde_json::Value;

pub mod csi;
pub mod host_path;
pub mod mock;
pub mod network;
pub mod nfs;
pub mod recycler;
pub mod steps;
pub mod volume;

pub use recycler::Recycler;
pub use steps::{Attaching, Deletion, Operation, ProvisionRequest, Provisioning, Recycling};
pub use volume::Volume;

/// The prefix of the names of in-tree plugins.
pub const IN_TREE: &str = "kubernetes.io/";
/// Stands for the name of a volume's plugin in metrics if there is none.
pub const NOT_AVAILABLE: &str = "N/A";

/// A volume plugin.
///
/// The methods for steps are called only if [`operations`](Self::operations) has the operation, and for volumes that the
/// plugin [supports](Self::supports).
pub trait VolumePlugin {
    /// The name in StorageClasses, annotations, unique names of volumes and metrics.
    fn name(&self) -> &str;

    /// Whether the plugin handles a volume.
    fn supports(&self, volume: Volume) -> bool;

    /// Names the disk, share or path of a volume: the second part of its unique name. `None` if the volume has none.
    fn volume_name(&self, volume: Volume) -> Option<String>;

    /// The operations that the plugin has.
    fn operations(&self) -> &'static [Operation];

    /// Whether PersistentVolumes may have mount options.
    fn supports_mount_options(&self) -> bool {
        true
    }

    /// Empties a released volume for the next claim.
    fn recycle(&self, _volume: Volume) -> Recycling {
        Recycling::Done
    }

    /// Deletes the storage of a released volume. The PersistentVolume itself is deleted by the controller.
    fn delete(&self, _volume: Volume) -> Deletion {
        Ok(())
    }

    /// Creates storage, and the PersistentVolume for it.
    fn provision(&self, request: &ProvisionRequest) -> Provisioning {
        let name = self.name();
        Provisioning::Refused(format!("{name} does not provision {}", request.volume_name))
    }

    /// Attaches a volume to a node.
    fn attach(&self, _volume: Volume, _node: &str) -> Attaching {
        Attaching::Attached(String::new())
    }
}

/// No plugin was found. The text is that of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlugin(pub String);

impl NoPlugin {
    fn without(operation: Operation) -> Self {
        Self(format!(
            "no {} volume plugin matched",
            operation.adjective()
        ))
    }
}

impl fmt::Display for NoPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A plugin, or `None` if somebody else does the work.
pub type External<'a> = Option<&'a dyn VolumePlugin>;

/// The volume plugins of a controller.
pub struct Plugins {
    all: Vec<Box<dyn VolumePlugin>>,
}

impl Plugins {
    /// The stock plugins with their defaults; or only the mock with this name, which provisions with this delay.
    pub fn new(mock: Option<&str>, provision_delay: Duration) -> Self {
        match mock {
            Some(name) => Self {
                all: vec![Box::new(mock::Mock::new(name, provision_delay))],
            },
            None => Self::stock(host_path::HostPath::default(), nfs::Nfs::default()),
        }
    }

    /// The plugins that the configuration asks for. A controller declares the values that concern it with
    /// [`mock::declare`], [`recycler::declare`] and [`host_path::declare`]; the others have their defaults.
    ///
    /// # Errors
    /// A value is invalid. The error is terminal.
    pub fn read(host: &Host) -> Result<Self, Error> {
        if let Some(mock) = mock::Mock::read(host)? {
            return Ok(Self {
                all: vec![Box::new(mock)],
            });
        }
        Ok(Self::stock(
            host_path::HostPath::read(host)?,
            nfs::Nfs::read(host)?,
        ))
    }

    fn stock(host_path: host_path::HostPath, nfs: nfs::Nfs) -> Self {
        Self {
            all: vec![
                Box::new(host_path),
                Box::new(nfs),
                Box::new(network::FibreChannel),
                Box::new(network::Iscsi),
                Box::new(csi::Csi),
            ],
        }
    }

    /// Keeps the plugins that have one of these operations. A controller finds only the plugins that it uses.
    #[must_use]
    pub fn with_any_of(mut self, operations: &[Operation]) -> Self {
        let has = |plugin: &dyn VolumePlugin| {
            { operations.iter() }.any(|one| plugin.operations().contains(one))
        };
        self.all.retain(|plugin| has(&**plugin));
        self
    }

    fn iter(&self) -> impl Iterator<Item = &dyn VolumePlugin> {
        self.all.iter().map(|plugin| &**plugin)
    }
}

/// Lookups.
impl Plugins {
    /// Returns the plugin of a volume. A volume of a migrated kind must be translated to CSI before.
    ///
    /// # Errors
    /// No plugin supports the volume.
    pub fn find_by_volume(&self, volume: Volume) -> Result<&dyn VolumePlugin, NoPlugin> {
        self.iter()
            .find(|plugin| plugin.supports(volume))
            .ok_or_else(|| NoPlugin("no volume plugin matched".into()))
    }

    /// Returns the plugin with this name.
    ///
    /// # Errors
    /// There is no such plugin.
    pub fn find_by_name(&self, name: &str) -> Result<&dyn VolumePlugin, NoPlugin> {
        self.iter()
            .find(|plugin| plugin.name() == name)
            .ok_or_else(|| NoPlugin(format!("no volume plugin matched name: {name}")))
    }

    /// Returns the plugin that recycles a volume.
    ///
    /// # Errors
    /// There is none. Stock's event has a text of its own then.
    pub fn find_recycler(&self, volume: Volume) -> Result<&dyn VolumePlugin, NoPlugin> {
        with(Operation::Recycle, self.find_by_volume(volume)?)
    }

    /// Returns the plugin that provisions for classes with this provisioner; `None` if an external provisioner does.
    ///
    /// # Errors
    /// The name is that of an in-tree plugin that can't provision, or that does not exist.
    pub fn find_by_provisioner(&self, name: &str) -> Result<External<'_>, NoPlugin> {
        if flyball_csi_translation::is_migrated(name) {
            return Ok(None);
        }
        self.in_tree(name, Operation::Provision)
    }

    /// Returns the plugin that deletes a PersistentVolume; `None` if an external provisioner does. `provisioned_by` is the
    /// value of the annotation `pv.kubernetes.io/provisioned-by`, and `is_migrated` whether there is an annotation
    /// `pv.kubernetes.io/migrated-to`.
    ///
    /// # Errors
    /// No plugin can delete it.
    pub fn find_deleter(
        &self,
        volume: Volume,
        provisioned_by: Option<&str>,
        is_migrated: bool,
    ) -> Result<External<'_>, NoPlugin> {
        if let Some(name) = provisioned_by.filter(|name| !name.is_empty()) {
            return self.in_tree(name, Operation::Delete);
        }
        if is_migrated || volume.source("csi").is_some() {
            return Ok(None);
        }
        let found = self
            .find_by_volume(volume)
            .and_then(|plugin| with(Operation::Delete, plugin));
        found.map(Some).map_err(|NoPlugin(reason)| {
            let name = volume.name();
            NoPlugin(format!(
                "error getting deleter volume plugin for volume \"{name}\": {reason}"
            ))
        })
    }

    /// Returns the plugin that attaches a volume; `None` if the volume needs no attachment. `requires_attachment` says
    /// whether the volumes of a CSI driver do: those without a CSIDriver object, too.
    ///
    /// # Errors
    /// No plugin supports the volume.
    pub fn find_attachable(
        &self,
        volume: Volume,
        requires_attachment: impl FnOnce(&str) -> bool,
    ) -> Result<External<'_>, NoPlugin> {
        let plugin = self.find_by_volume(volume)?;
        let can_attach = plugin.operations().contains(&Operation::Attach)
            && match plugin.name() {
                csi::NAME => csi::persistent_source(volume)
                    .is_some_and(|source| requires_attachment(source.driver)),
                _ => true,
            };
        Ok(can_attach.then_some(plugin))
    }

    /// Returns the plugin with this name for an operation; `None` if the name is not that of an in-tree plugin.
    fn in_tree(&self, name: &str, operation: Operation) -> Result<External<'_>, NoPlugin> {
        let found = self
            .find_by_name(name)
            .and_then(|plugin| with(operation, plugin));
        match found {
            Ok(plugin) => Ok(Some(plugin)),
            Err(_) if !name.starts_with(IN_TREE) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the plugin if it has the operation.
fn with(operation: Operation, plugin: &dyn VolumePlugin) -> Result<&dyn VolumePlugin, NoPlugin> {
    match plugin.operations().contains(&operation) {
        true => Ok(plugin),
        false => Err(NoPlugin::without(operation)),
    }
}

/// Names of volumes.
impl Plugins {
    /// Returns the name of a volume in `status.volumesAttached` and `status.volumesInUse` of nodes: the name of its
    /// plugin, a slash, and [`VolumePlugin::volume_name`].
    pub fn unique_name(&self, plugin: &dyn VolumePlugin, volume: Volume) -> Option<String> {
        let name = plugin.volume_name(volume)?;
        Some(format!("{}/{name}", plugin.name()))
    }

    /// Splits a unique name into the plugin and the name of the volume. `None` if no plugin has it: the name is of a
    /// kubelet's plugin.
    pub fn split_unique_name<'a>(&self, unique: &'a str) -> Option<(&dyn VolumePlugin, &'a str)> {
        self.iter().find_map(|plugin| {
            let rest = unique.strip_prefix(plugin.name())?;
            Some((plugin, rest.strip_prefix('/')?))
        })
    }
}

/// Returns the name of a volume's plugin in metrics. It includes the driver of a CSI volume, whichever plugin handles it.
pub fn qualified_name(plugin: &dyn VolumePlugin, volume: Volume) -> String {
    let driver = volume
        .source("csi")
        .and_then(|csi: &Value| csi["driver"].as_str());
    match driver {
        Some(driver) => format!("{}:{driver}", plugin.name()),
        None => plugin.name().into(),
    }
}
