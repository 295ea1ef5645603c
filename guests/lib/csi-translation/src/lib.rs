//! The in-tree volume kinds that CSI drivers have replaced: their names, and the translation of PersistentVolumes, of
//! volumes in pods and of StorageClasses to CSI.
//!
//! Kubernetes has no switch for the migration: each kind in [`PLUGINS`] is always migrated. Objects are JSON as the
//! API serves it. A translated object keeps all fields that the translation does not name.
//!
//! ```
//! use serde_json::json;
//!
//! let volume = json!({
//!     "metadata": {"name": "pv-1", "labels": {"topology.kubernetes.io/zone": "us-east-1a"}},
//!     "spec": {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1", "fsType": "ext4"}},
//! });
//! let translated = flyball_csi_translation::translate_in_tree_pv(&volume).unwrap();
//! assert_eq!(
//!     translated["spec"]["csi"],
//!     json!({
//!         "driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4",
//!         "volumeAttributes": {"partition": "0"},
//!     }),
//! );
//! ```
//!
//! Only the direction to CSI is here. The opposite one, and the repair of volume handles, are for external provisioners
//! and attachers; no controller of kube-controller-manager uses them.
//!
//! Upstream: staging/src/k8s.io/csi-translation-lib/translate.go.
//! Upstream: pkg/volume/csimigration/plugin_manager.go.

use serde_json::{Map, Value, json};

mod class;
mod plugins;
mod sources;
mod topology;

pub use plugins::{PLUGINS, Plugin};

/// An object can't be expressed for the CSI driver. The text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untranslatable(pub String);

impl std::fmt::Display for Untranslatable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Untranslatable {}

/// Whether the in-tree plugin with this name, such as `kubernetes.io/gce-pd`, is migrated to CSI.
pub fn is_migrated(in_tree_name: &str) -> bool {
    csi_name_from_in_tree_name(in_tree_name).is_some()
}

/// Whether the CSI driver with this name replaces an in-tree plugin.
pub fn is_migrated_driver(csi_name: &str) -> bool {
    in_tree_name_from_csi_name(csi_name).is_some()
}

/// Returns the CSI driver that replaces an in-tree plugin.
pub fn csi_name_from_in_tree_name(in_tree_name: &str) -> Option<&'static str> {
    by_name(in_tree_name).map(|plugin| plugin.driver)
}

/// Returns the in-tree plugin that a CSI driver replaces.
pub fn in_tree_name_from_csi_name(csi_name: &str) -> Option<&'static str> {
    let plugin = PLUGINS.iter().find(|plugin| plugin.driver == csi_name);
    plugin.map(|plugin| plugin.name)
}

/// Returns the migrated plugin of a volume, given the spec of a PersistentVolume or an entry of a pod's
/// `spec.volumes`: both have the same field for the source.
pub fn plugin_of(volume: &Value) -> Option<&'static Plugin> {
    PLUGINS
        .iter()
        .find(|plugin| volume[plugin.source].is_object())
}

fn by_name(in_tree_name: &str) -> Option<&'static Plugin> {
    PLUGINS.iter().find(|plugin| plugin.name == in_tree_name)
}

/// Translates a PersistentVolume, which must have `metadata` and `spec`: replaces its source, and the zones and regions
/// that it can be used in.
///
/// # Errors
/// The volume is not of a migrated kind, or its driver has no equivalent for its source.
pub fn translate_in_tree_pv(volume: &Value) -> Result<Value, Untranslatable> {
    let Some(plugin) = plugin_of(&volume["spec"]) else {
        let name = &volume["metadata"]["name"];
        return Err(Untranslatable(format!(
            "the PersistentVolume {name} is not of a migrated kind"
        )));
    };
    let csi = plugin.persistent_source(volume)?;
    let mut translated = volume.clone();
    let labels = &volume["metadata"]["labels"];
    plugin.topology.translate(labels, &mut translated["spec"]);
    if let Some(spec) = translated["spec"].as_object_mut() {
        spec.remove(plugin.source);
        spec.insert("csi".into(), csi);
        if plugin.normalizes_access_modes {
            sources::normalize_access_modes(spec);
        }
    }
    Ok(translated)
}

/// Translates an entry of a pod's `spec.volumes` to a PersistentVolume, which exists nowhere else. Its name is unique to
/// the disk. `pod_namespace` is the namespace of the Secrets that the volume names.
///
/// # Errors
/// As [`translate_in_tree_pv`].
pub fn translate_in_tree_inline_volume(
    volume: &Value,
    pod_namespace: &str,
) -> Result<Value, Untranslatable> {
    let Some(plugin) = plugin_of(volume) else {
        let name = &volume["name"];
        return Err(Untranslatable(format!(
            "the pod's volume {name} is not of a migrated kind"
        )));
    };
    let inline = plugin.inline_source(volume, pod_namespace)?;
    Ok(json!({
        "metadata": {"name": inline.name},
        "spec": {
            "csi": inline.csi,
            "accessModes": [inline.access_mode],
            "volumeMode": "Filesystem",
        },
    }))
}

/// Translates a StorageClass of an in-tree provisioner: its parameters and the topologies that it allows.
///
/// # Errors
/// The provisioner is not migrated, or the class has zones both as parameters and as allowed topologies.
pub fn translate_in_tree_storage_class(
    in_tree_name: &str,
    class: &Value,
) -> Result<Value, Untranslatable> {
    let Some(plugin) = by_name(in_tree_name) else {
        return Err(Untranslatable(format!(
            "the provisioner {in_tree_name} is not migrated"
        )));
    };
    let empty = Map::new();
    let mut class = class.as_object().unwrap_or(&empty).clone();
    plugin.class.translate(&mut class)?;
    Ok(Value::Object(class))
}
