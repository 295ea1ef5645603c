//! A volume, as its plugin sees it.

use serde_json::Value;

/// A PersistentVolume, or a volume in the spec of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Volume<'a> {
    name: &'a str,
    /// The spec of the PersistentVolume, or the entry of the pod.
    spec: &'a Value,
    is_persistent: bool,
}

impl<'a> Volume<'a> {
    /// A PersistentVolume, given its name and its spec.
    pub fn persistent(name: &'a str, spec: &'a Value) -> Self {
        Self {
            name,
            spec,
            is_persistent: true,
        }
    }

    /// An entry of a pod's `spec.volumes`.
    pub fn of_pod(entry: &'a Value) -> Self {
        Self {
            name: entry["name"].as_str().unwrap_or_default(),
            spec: entry,
            is_persistent: false,
        }
    }

    /// The name of the PersistentVolume, or of the volume within the pod.
    pub fn name(&self) -> &'a str {
        self.name
    }

    pub fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// The source in this field, such as `hostPath` or `csi`, if the volume has it.
    pub fn source(&self, field: &str) -> Option<&'a Value> {
        Some(&self.spec[field]).filter(|source| source.is_object())
    }

    /// The storage capacity as a text; empty if there is none.
    pub fn capacity(&self) -> &'a str {
        self.spec["capacity"]["storage"]
            .as_str()
            .unwrap_or_default()
    }

    /// Whether several nodes may have the volume attached. If it is not known, the attacher has to decide.
    pub fn allows_multi_attach(&self) -> bool {
        if !self.is_persistent {
            return self.source("azureDisk").is_none() && self.source("cinder").is_none();
        }
        let modes = self.spec["accessModes"].as_array();
        let is_shared = |mode: &Value| mode == "ReadWriteMany" || mode == "ReadOnlyMany";
        modes.is_none_or(|modes| modes.is_empty() || modes.iter().any(is_shared))
    }
}
