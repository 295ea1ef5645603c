//! `kubernetes.io/host-path`: folders on nodes, for clusters of one node.
//!
//! In kube-controller-manager the plugin creates and deletes the folders on the disk of the process, which is the node's
//! only if the process runs on the node itself. A guest has no disk. So a folder is created by the container runtime,
//! when the first pod mounts the volume; and a deleted volume leaves its folder behind, as it does with a
//! kube-controller-manager in a container. All that the API server sees is the same.
//!
//! Upstream: pkg/volume/hostpath/host_path.go: GetVolumeName, CanSupport, Recycle, NewProvisioner, Provision,
//! Delete.

use std::time::Duration;

use flyball_sdk::describe::Description;
use flyball_sdk::{Error, Host};
use serde_json::{Value, json};

use crate::recycler::{Recycled, Recycler};
use crate::steps::{Deletion, Operation, ProvisionRequest, Provisioning, Recycling};
use crate::{Volume, VolumePlugin};

pub const NAME: &str = "kubernetes.io/host-path";
/// Configuration key: whether the plugin provisions.
pub const PROVISIONS: &str = "enable-hostpath-provisioner";
/// The annotation that names the creator of a volume.
const CREATED_BY: &str = "kubernetes.io/createdby";

/// Declares the configuration of the provisioner.
pub fn declare(description: Description) -> Description {
    description.config(
        PROVISIONS,
        Some("false"),
        "Whether the plugin kubernetes.io/host-path provisions volumes.",
    )
}

/// The plugin.
#[derive(Clone, Debug)]
pub struct HostPath {
    pub recycler: Recycler,
    /// Whether it provisions.
    pub provisions: bool,
}

impl Default for HostPath {
    fn default() -> Self {
        Self {
            recycler: Recycler::of(Recycled::HostPath),
            provisions: false,
        }
    }
}

impl HostPath {
    pub(crate) fn read(host: &Host) -> Result<Self, Error> {
        Ok(Self {
            recycler: Recycler::read(host, Recycled::HostPath)?,
            provisions: match host.config(PROVISIONS).as_deref() {
                None | Some("false") => false,
                Some("true") => true,
                Some(other) => return Err(Error::invalid_config(PROVISIONS, other)),
            },
        })
    }
}

fn path<'a>(volume: Volume<'a>) -> &'a str {
    let path = volume.source("hostPath").map(|source| &source["path"]);
    path.and_then(Value::as_str).unwrap_or_default()
}

impl VolumePlugin for HostPath {
    fn name(&self) -> &str {
        NAME
    }

    fn supports(&self, volume: Volume) -> bool {
        volume.source("hostPath").is_some()
    }

    fn volume_name(&self, volume: Volume) -> Option<String> {
        Some(path(volume).into())
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Recycle, Operation::Delete, Operation::Provision]
    }

    fn supports_mount_options(&self) -> bool {
        false
    }

    fn recycle(&self, volume: Volume) -> Recycling {
        let source = ("hostPath", json!({"path": path(volume)}));
        Recycling::Pod(self.recycler.pod(volume, source))
    }

    fn delete(&self, volume: Volume) -> Deletion {
        let path = path(volume);
        match path.split_once("/tmp/") {
            Some((_, below)) if !below.is_empty() => Ok(()),
            _ => Err(format!(
                "host_path deleter only supports /tmp/.+ but received provided {path}"
            )),
        }
    }

    fn provision(&self, request: &ProvisionRequest) -> Provisioning {
        if !self.provisions {
            return Provisioning::Refused(format!(
                "provisioning in volume plugin \"{NAME}\" is disabled"
            ));
        }
        if request.claim["volumeMode"] == "Block" {
            return Provisioning::Failed(format!(
                "{NAME} does not support block volume provisioning"
            ));
        }
        let mut volume = host_path_volume(request);
        if volume["spec"]["accessModes"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            volume["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
        }
        volume["metadata"]["annotations"] = json!({CREATED_BY: "hostpath-dynamic-provisioner"});
        Provisioning::Created {
            volume,
            after: Duration::ZERO,
        }
    }
}

/// Returns a PersistentVolume below `/tmp` for a claim, with its size and its access modes.
pub(crate) fn host_path_volume(request: &ProvisionRequest) -> Value {
    let size = match &request.claim["resources"]["requests"]["storage"] {
        Value::Null => "0".into(),
        size => size.clone(),
    };
    json!({
        "metadata": {"name": request.volume_name},
        "spec": {
            "persistentVolumeReclaimPolicy": request.reclaim_policy,
            "accessModes": request.claim["accessModes"],
            "capacity": {"storage": size},
            "hostPath": {"path": format!("/tmp/hostpath_pv/{}", request.uuid)},
        },
    })
}
