//! The sources of volumes: the disk or share that each one names.
//!
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/aws_ebs.go: TranslateInTreePVToCSI,
//! TranslateInTreeInlineVolumeToCSI, KubernetesVolumeIDToEBSVolumeID.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/azure_disk.go: TranslateInTreePVToCSI,
//! TranslateInTreeInlineVolumeToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/azure_file.go: TranslateInTreePVToCSI,
//! TranslateInTreeInlineVolumeToCSI, getStorageAccountName.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/gce_pd.go: TranslateInTreePVToCSI,
//! TranslateInTreeInlineVolumeToCSI, backwardCompatibleAccessModes, gceGetRegionFromZones.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/openstack_cinder.go: TranslateInTreePVToCSI,
//! TranslateInTreeInlineVolumeToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/portworx.go: TranslateInTreePVToCSI,
//! TranslateInTreeInlineVolumeToCSI.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/vsphere_volume.go: TranslateInTreePVToCSI,
//! TranslateInTreeInlineVolumeToCSI.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Untranslatable;
use crate::topology::{SEPARATOR, ZONE, ZONE_BETA};

/// The annotation, and the parameter of a class, with the name of the Secret for Portworx.
pub(crate) const PORTWORX_SECRET_NAME: &str = "openstorage.io/auth-secret-name";
/// The annotation, and the parameter of a class, with the namespace of that Secret.
pub(crate) const PORTWORX_SECRET_NAMESPACE: &str = "openstorage.io/auth-secret-namespace";
/// The annotation with the resource group of an Azure share.
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";
/// Stands for a part of a GCE volume handle that the attacher fills in.
const UNSPECIFIED: &str = "UNSPECIFIED";
/// The only kind of Azure disks that the driver supports.
const MANAGED: &str = "Managed";

/// An in-tree source, with the parts of its object that are translated with it.
pub(crate) struct Origin<'a> {
    source: &'a Value,
    /// The PersistentVolume, or the pod's volume.
    volume: &'a Value,
    /// The namespace of the pod; none for a PersistentVolume.
    pod_namespace: Option<&'a str>,
}

impl<'a> Origin<'a> {
    pub(crate) fn of_persistent_volume(source: &'a Value, volume: &'a Value) -> Self {
        Self {
            source,
            volume,
            pod_namespace: None,
        }
    }

    pub(crate) fn of_pod(source: &'a Value, volume: &'a Value, pod_namespace: &'a str) -> Self {
        Self {
            source,
            volume,
            pod_namespace: Some(pod_namespace),
        }
    }

    fn text(&self, field: &str) -> &'a str {
        self.source[field].as_str().unwrap_or_default()
    }

    fn number(&self, field: &str) -> i64 {
        self.source[field].as_i64().unwrap_or_default()
    }

    fn is_read_only(&self) -> bool {
        self.source["readOnly"].as_bool() == Some(true)
    }

    fn label(&self, key: &str) -> &'a str {
        self.volume["metadata"]["labels"][key]
            .as_str()
            .unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.volume["metadata"]["annotations"][key].as_str()
    }

    /// A source with this handle, and with what all in-tree sources call the same.
    fn csi(&self, handle: impl Into<String>) -> Csi {
        Csi {
            volume_handle: handle.into(),
            read_only: self.is_read_only(),
            fs_type: self.text("fsType").into(),
            ..Csi::default()
        }
    }
}

/// A CSI source. Fields that have no value are left out, as in the API.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Csi {
    volume_handle: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    fs_type: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    volume_attributes: BTreeMap<&'static str, String>,
    /// A Secret for each step of the volume's life.
    #[serde(flatten)]
    secrets: BTreeMap<&'static str, Secret>,
}

/// A reference to a Secret.
#[derive(Clone, Debug, Serialize)]
struct Secret {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
}

impl Csi {
    pub(crate) fn into_json(self, driver: &str) -> Value {
        let mut csi = json!(self);
        csi["driver"] = driver.into();
        csi
    }

    fn with(mut self, attribute: &'static str, value: impl Into<String>) -> Self {
        self.volume_attributes.insert(attribute, value.into());
        self
    }
}

/// A pod's volume as a PersistentVolume.
pub(crate) struct Inline {
    pub(crate) name: String,
    pub(crate) access_mode: &'static str,
    pub(crate) csi: Value,
}

/// The name of the PersistentVolume that a pod's volume is translated to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InlineName {
    Handle,
    DriverAndHandle,
    /// The driver, and this field of the source.
    DriverAndField(&'static str),
}

impl InlineName {
    pub(crate) fn of(self, driver: &str, source: &Value, csi: &Csi) -> String {
        match self {
            Self::Handle => csi.volume_handle.clone(),
            Self::DriverAndHandle => format!("{driver}-{}", csi.volume_handle),
            Self::DriverAndField(field) => {
                format!("{driver}-{}", source[field].as_str().unwrap_or_default())
            }
        }
    }
}

pub(crate) fn aws_ebs(origin: &Origin) -> Result<Csi, Untranslatable> {
    let handle = ebs_handle(origin.text("volumeID"))?;
    let partition = origin.number("partition").to_string();
    Ok(origin.csi(handle).with("partition", partition))
}

/// Returns the ID of an EBS volume that is written as `vol-1`, `aws:///vol-1` or `aws://ZONE/vol-1`.
fn ebs_handle(id: &str) -> Result<&str, Untranslatable> {
    let Some(url) = id.strip_prefix("aws://") else {
        return Ok(id);
    };
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let volume = path.find('/').map_or("", |start| &path[start..]);
    let volume = volume.trim_matches('/');
    if !volume.starts_with("vol-") || volume.contains('/') {
        return Err(Untranslatable(format!(
            "{id} is not the ID of an EBS volume"
        )));
    }
    Ok(volume)
}

pub(crate) fn gce_pd(origin: &Origin) -> Result<Csi, Untranslatable> {
    let place = match origin.pod_namespace {
        Some(_) => format!("zones/{UNSPECIFIED}"),
        None => gce_place(origin)?,
    };
    let disk = origin.text("pdName");
    let partition = match origin.number("partition") {
        0 => String::new(),
        number => number.to_string(),
    };
    let handle = format!("projects/{UNSPECIFIED}/{place}/disks/{disk}");
    Ok(origin.csi(handle).with("partition", partition))
}

/// Returns the zone of a disk, or the region of a disk with several zones, from the labels of its PersistentVolume.
fn gce_place(origin: &Origin) -> Result<String, Untranslatable> {
    let label = match origin.label(ZONE_BETA) {
        "" => origin.label(ZONE),
        label => label,
    };
    let zones: Vec<&str> = label.split(SEPARATOR).collect();
    match *zones {
        [""] => Ok(format!("zones/{UNSPECIFIED}")),
        [zone] => Ok(format!("zones/{zone}")),
        _ => Ok(format!("regions/{}", gce_region(&zones)?)),
    }
}

/// Returns the common region of zones, which are written as `CONTINENT-REGION-ZONE`.
fn gce_region(zones: &[&str]) -> Result<String, Untranslatable> {
    let region_of = |zone: &&'_ str| {
        let (region, _) = zone.rsplit_once('-')?;
        (region.matches('-').count() == 1).then(|| region.to_owned())
    };
    let regions: Option<BTreeSet<String>> = zones.iter().map(region_of).collect();
    let regions: Vec<String> = regions.into_iter().flatten().collect();
    match <[String; 1]>::try_from(regions) {
        Ok([region]) => Ok(region),
        Err(_) => Err(Untranslatable(format!(
            "the zones {} are not in one region",
            zones.join(", ")
        ))),
    }
}

/// Reduces access modes to one that the driver of GCE can attach with. The in-tree plugin did not look at them.
///
/// See <https://github.com/kubernetes-csi/external-attacher/issues/153>.
pub(crate) fn normalize_access_modes(spec: &mut Map<String, Value>) {
    let Some(modes) = spec.get("accessModes").and_then(Value::as_array) else {
        return;
    };
    let has = |mode: &str| modes.iter().any(|one| one == mode);
    let is_read_only = has("ReadOnlyMany") && !has("ReadWriteOnce") && !has("ReadWriteMany");
    let mode = match is_read_only {
        true => "ReadOnlyMany",
        false => "ReadWriteOnce",
    };
    spec.insert("accessModes".into(), json!([mode]));
}

pub(crate) fn azure_disk(origin: &Origin) -> Result<Csi, Untranslatable> {
    let kind = origin.source["kind"].as_str().unwrap_or(MANAGED);
    if !kind.eq_ignore_ascii_case(MANAGED) {
        return Err(Untranslatable(format!(
            "Azure disks of the kind {kind} can't be migrated"
        )));
    }
    let mut csi = origin.csi(origin.text("diskURI")).with("kind", MANAGED);
    for (attribute, field) in [("cachingmode", "cachingMode"), ("fstype", "fsType")] {
        if let Some(value) = origin.source[field].as_str() {
            csi = csi.with(attribute, value);
        }
    }
    Ok(csi)
}

pub(crate) fn azure_file(origin: &Origin) -> Result<Csi, Untranslatable> {
    let namespace = azure_secret_namespace(origin)?;
    let secret = origin.text("secretName");
    let account = azure_account(secret).unwrap_or(secret);
    let share = origin.text("shareName");
    let (group, name) = match origin.pod_namespace {
        Some(_) => ("", &origin.volume["name"]),
        None => (
            origin.annotation(RESOURCE_GROUP).unwrap_or_default(),
            &origin.volume["metadata"]["name"],
        ),
    };
    let name = name.as_str().unwrap_or_default();
    let mut csi = origin
        .csi(format!("{group}#{account}#{share}#{name}#{namespace}"))
        .with("sharename", share);
    let secret = Secret {
        name: secret.into(),
        namespace: namespace.into(),
    };
    csi.secrets.insert("nodeStageSecretRef", secret);
    Ok(csi)
}

/// Returns the namespace of the Secret for a share: the volume's own, or that of the claim or the pod.
fn azure_secret_namespace<'a>(origin: &Origin<'a>) -> Result<&'a str, Untranslatable> {
    let namespace = match origin.pod_namespace {
        Some("") => "default",
        Some(namespace) => namespace,
        None => origin.source["secretNamespace"]
            .as_str()
            .or_else(|| origin.volume["spec"]["claimRef"]["namespace"].as_str())
            .unwrap_or_default(),
    };
    match namespace {
        "" => Err(Untranslatable(
            "the Secret of the Azure share has no namespace".into(),
        )),
        namespace => Ok(namespace),
    }
}

/// Returns the account in the name of a Secret, `azure-storage-account-ACCOUNT-secret`. Other characters may surround it.
fn azure_account(secret: &str) -> Option<&str> {
    const PREFIX: &str = "azure-storage-account-";
    let start = secret.find(PREFIX)? + PREFIX.len();
    let end = start + secret[start..].rfind("-secret")?;
    (start < end).then(|| &secret[start..end])
}

pub(crate) fn cinder(origin: &Origin) -> Result<Csi, Untranslatable> {
    Ok(origin.csi(origin.text("volumeID")))
}

pub(crate) fn vsphere(origin: &Origin) -> Result<Csi, Untranslatable> {
    let csi = origin.csi(origin.text("volumePath"));
    // Kube-controller-manager crashes on a policy in a pod's volume. It is translated here as in a PersistentVolume.
    Ok(match origin.text("storagePolicyName") {
        "" => csi,
        policy => csi.with("storagepolicyname", policy),
    })
}

pub(crate) fn portworx(origin: &Origin) -> Result<Csi, Untranslatable> {
    let mut csi = Csi {
        // Whether it is read-only shows in the access mode.
        read_only: false,
        ..origin.csi(origin.text("volumeID"))
    };
    let name = origin.annotation(PORTWORX_SECRET_NAME);
    let namespace = origin.annotation(PORTWORX_SECRET_NAMESPACE);
    if let (Some(name), Some(namespace)) = (name, namespace) {
        let secret = Secret {
            name: name.into(),
            namespace: namespace.into(),
        };
        let uses = [
            "controllerPublishSecretRef",
            "nodeStageSecretRef",
            "nodePublishSecretRef",
            "controllerExpandSecretRef",
            "nodeExpandSecretRef",
        ];
        csi.secrets = uses
            .into_iter()
            .map(|usage| (usage, secret.clone()))
            .collect();
    }
    Ok(csi)
}
