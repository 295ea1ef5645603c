//! The steps that plugins return.

use std::time::Duration;

use serde_json::Value;

/// Something that a plugin can do with volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Recycle,
    Delete,
    Provision,
    Attach,
}

impl Operation {
    /// The word in the texts about plugins without the operation.
    pub(crate) fn adjective(self) -> &'static str {
        match self {
            Self::Recycle => "recyclable",
            Self::Delete => "deletable",
            Self::Provision => "provisionable",
            Self::Attach => "attachable",
        }
    }
}

/// How a volume is recycled.
#[derive(Clone, Debug, PartialEq)]
pub enum Recycling {
    /// Nothing is left to do.
    Done,
    /// This pod does it. It is created, watched until it ends, and deleted. [`recycler::outcome`](crate::recycler::outcome)
    /// says how it ended.
    Pod(Value),
}

/// How the storage of a volume is deleted: it is, or it can't be, for this reason.
pub type Deletion = Result<(), String>;

/// A claim that needs a volume.
#[derive(Clone, Copy, Debug)]
pub struct ProvisionRequest<'a> {
    /// The name of the PersistentVolume to create: `pvc-` and the UID of the claim.
    pub volume_name: &'a str,
    /// The `spec` of the claim.
    pub claim: &'a Value,
    /// The `reclaimPolicy` of the StorageClass.
    pub reclaim_policy: &'a str,
    /// The `parameters` of the StorageClass.
    pub parameters: &'a Value,
    /// A random UUID.
    pub uuid: &'a str,
}

/// How a volume is provisioned.
#[derive(Clone, Debug, PartialEq)]
pub enum Provisioning {
    /// This PersistentVolume is created after this time. The controller adds the claim, the class, the finalizer and its
    /// annotations.
    Created { volume: Value, after: Duration },
    /// The plugin does not provision, for this reason ("Failed to create provisioner: …").
    Refused(String),
    /// Provisioning failed, for this reason ("Failed to provision volume with StorageClass …: …"). Another node may do.
    Failed(String),
}

/// How a volume is attached.
#[derive(Clone, Debug, PartialEq)]
pub enum Attaching {
    /// It is attached already, as this device path.
    Attached(String),
    /// An external attacher does it. This VolumeAttachment is created unless it exists, and deleted to detach the volume.
    /// [`csi::attachment_state`](crate::csi::attachment_state) says how far it is.
    Attachment(Value),
    /// It can't be attached, for this reason.
    Failed(String),
}
