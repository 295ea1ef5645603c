//! `kubernetes.io/fc` and `kubernetes.io/iscsi`: disks that each node connects to itself. Attaching them does nothing, but
//! keeps a disk from being used by two nodes.
//!
//! Upstream: pkg/volume/fc/fc.go: GetVolumeName, CanSupport.
//! Upstream: pkg/volume/fc/attacher.go: Attach.
//! Upstream: pkg/volume/iscsi/iscsi.go: GetVolumeName, CanSupport.
//! Upstream: pkg/volume/iscsi/attacher.go: Attach.

use serde_json::Value;

use crate::steps::Operation;
use crate::{Volume, VolumePlugin};

/// The plugin of Fibre Channel.
#[derive(Clone, Copy, Debug)]
pub struct FibreChannel;

impl VolumePlugin for FibreChannel {
    fn name(&self) -> &str {
        "kubernetes.io/fc"
    }

    fn supports(&self, volume: Volume) -> bool {
        volume.source("fc").is_some()
    }

    /// Lists are written as Go prints them: `[a b]`.
    fn volume_name(&self, volume: Volume) -> Option<String> {
        let source = volume.source("fc")?;
        let list = |field: &str| {
            let names = source[field].as_array()?.iter().filter_map(Value::as_str);
            let names: Vec<&str> = names.collect();
            (!names.is_empty()).then(|| format!("[{}]", names.join(" ")))
        };
        match (list("targetWWNs"), source["lun"].as_i64()) {
            (Some(names), Some(lun)) => Some(format!("{names}:{lun}")),
            _ => list("wwids"),
        }
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Attach]
    }
}

/// The plugin of iSCSI.
#[derive(Clone, Copy, Debug)]
pub struct Iscsi;

impl VolumePlugin for Iscsi {
    fn name(&self) -> &str {
        "kubernetes.io/iscsi"
    }

    fn supports(&self, volume: Volume) -> bool {
        volume.source("iscsi").is_some()
    }

    fn volume_name(&self, volume: Volume) -> Option<String> {
        let source = volume.source("iscsi")?;
        let text = |field: &str| source[field].as_str().unwrap_or_default();
        let lun = source["lun"].as_i64().unwrap_or_default();
        Some(format!("{}:{}:{lun}", text("targetPortal"), text("iqn")))
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Attach]
    }
}
