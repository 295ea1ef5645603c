//! `kubernetes.io/csi`: volumes of CSI drivers, which external attachers attach.
//!
//! Upstream: pkg/volume/csi/csi_plugin.go: GetVolumeName, CanSupport, CanAttach.
//! Upstream: pkg/volume/csi/csi_attacher.go: Attach, Detach, getAttachmentName, verifyAttachmentStatus,
//! verifyDetachmentStatus, waitForVolumeAttachDetachStatusWithLister.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::steps::{Attaching, Operation};
use crate::{Volume, VolumePlugin};

pub const NAME: &str = "kubernetes.io/csi";
/// The kind of VolumeAttachments.
pub const ATTACHMENT: &str = "storage.k8s.io/v1/VolumeAttachment";
/// How long a controller waits for an external attacher, unless it is asked again.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// Separates the driver from the handle in the name of a volume.
const SEPARATOR: char = '^';

/// The plugin.
#[derive(Clone, Copy, Debug)]
pub struct Csi;

/// The disk of a PersistentVolume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    pub driver: &'a str,
    pub handle: &'a str,
}

/// Returns the disk of a PersistentVolume with a CSI source.
pub fn persistent_source(volume: Volume<'_>) -> Option<Source<'_>> {
    let csi = volume.source("csi").filter(|_| volume.is_persistent())?;
    Some(Source {
        driver: csi["driver"].as_str().unwrap_or_default(),
        handle: csi["volumeHandle"].as_str().unwrap_or_default(),
    })
}

impl Source<'_> {
    /// Returns the name of the VolumeAttachment for a node.
    pub fn attachment_name(&self, node: &str) -> String {
        let mut hash = Sha256::new();
        for part in [self.handle, self.driver, node] {
            hash.update(part);
        }
        let mut name = String::from("csi-");
        for byte in hash.finalize() {
            write!(name, "{byte:02x}").expect("a string takes all text");
        }
        name
    }

    /// Returns the VolumeAttachment for a node. `source` is the name of the PersistentVolume, or the spec of the one that a
    /// pod's volume was translated to.
    fn attachment(&self, node: &str, source: Value) -> Value {
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": self.attachment_name(node)},
            "spec": {"attacher": self.driver, "nodeName": node, "source": source},
        })
    }

    /// The error if the attacher has not attached or detached (`operation`) the volume in [`TIMEOUT`]. The driver is not
    /// known in a detachment.
    pub fn timeout_error(&self, operation: &str) -> String {
        let driver = match operation {
            "detach" => "unknown",
            _ => self.driver,
        };
        let handle = self.handle;
        format!(
            "timed out waiting for external-attacher of {driver} CSI driver to {operation} volume {handle}"
        )
    }
}

impl VolumePlugin for Csi {
    fn name(&self) -> &str {
        NAME
    }

    fn supports(&self, volume: Volume) -> bool {
        volume.source("csi").is_some()
    }

    fn volume_name(&self, volume: Volume) -> Option<String> {
        let Source { driver, handle } = persistent_source(volume)?;
        Some(format!("{driver}{SEPARATOR}{handle}"))
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Attach]
    }

    fn attach(&self, volume: Volume, node: &str) -> Attaching {
        match persistent_source(volume) {
            Some(source) => {
                let by = json!({"persistentVolumeName": volume.name()});
                Attaching::Attachment(source.attachment(node, by))
            }
            None => Attaching::Failed("the volume has no CSI source".into()),
        }
    }
}

/// Returns the VolumeAttachment for a pod's volume that was translated to CSI. `spec` is that of the PersistentVolume that
/// it was translated to.
pub fn inline_attachment(spec: &Value, node: &str) -> Option<Value> {
    let source = persistent_source(Volume::persistent("", spec))?;
    Some(source.attachment(node, json!({"inlineVolumeSpec": spec})))
}

/// How far an attachment is: `None` while the attacher works, then success or its error. `error` is the message in
/// `status.attachError`, if there is one.
pub fn attachment_state(
    is_deleting: bool,
    is_attached: bool,
    error: Option<&str>,
) -> Option<Result<(), String>> {
    match (is_deleting, is_attached) {
        (true, _) => Some(Err("volume attachment is being deleted".into())),
        (false, true) => Some(Ok(())),
        (false, false) => error.map(|message| Err(message.into())),
    }
}
