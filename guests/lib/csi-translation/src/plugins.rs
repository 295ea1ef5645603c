//! The table of migrated plugins.
//!
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/aws_ebs.go.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/azure_disk.go.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/azure_file.go.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/gce_pd.go.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/openstack_cinder.go.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/portworx.go.
//! Upstream: staging/src/k8s.io/csi-translation-lib/plugins/vsphere_volume.go.

use serde_json::Value;

use crate::Untranslatable;
use crate::class::{Class, Parameter};
use crate::sources::{self, Inline, InlineName, Origin};
use crate::topology::Topology;

/// A migrated in-tree plugin.
#[derive(Debug)]
pub struct Plugin {
    /// The name in StorageClasses, annotations and metrics.
    pub name: &'static str,
    /// The CSI driver that replaces it.
    pub driver: &'static str,
    /// The field of a PersistentVolume's spec, and of a pod's volume, that holds the source.
    pub source: &'static str,
    /// How the zones and regions of a PersistentVolume are translated.
    pub(crate) topology: Topology,
    /// How a StorageClass is translated.
    pub(crate) class: Class,
    /// Whether the access modes of a PersistentVolume are reduced to those that the driver can attach with.
    pub(crate) normalizes_access_modes: bool,
    /// Translates the source.
    pub(crate) translate: fn(&Origin) -> Result<sources::Csi, Untranslatable>,
    /// The name of the PersistentVolume that a volume of a pod is translated to.
    pub(crate) inline_name: InlineName,
    /// The access mode of that PersistentVolume, depending on whether the volume is read-only.
    pub(crate) inline_access_mode: [&'static str; 2],
}

impl Plugin {
    /// Translates the source of a PersistentVolume.
    pub(crate) fn persistent_source(&self, volume: &Value) -> Result<Value, Untranslatable> {
        let origin = Origin::of_persistent_volume(&volume["spec"][self.source], volume);
        Ok((self.translate)(&origin)?.into_json(self.driver))
    }

    /// Translates the source of a pod's volume.
    pub(crate) fn inline_source(
        &self,
        volume: &Value,
        pod_namespace: &str,
    ) -> Result<Inline, Untranslatable> {
        let source = &volume[self.source];
        let origin = Origin::of_pod(source, volume, pod_namespace);
        let csi = (self.translate)(&origin)?;
        let read_only = source["readOnly"].as_bool() == Some(true);
        Ok(Inline {
            name: self.inline_name.of(self.driver, source, &csi),
            access_mode: self.inline_access_mode[usize::from(read_only)],
            csi: csi.into_json(self.driver),
        })
    }
}

const ONCE: &str = "ReadWriteOnce";
const READ_ONLY: &str = "ReadOnlyMany";
const MANY: &str = "ReadWriteMany";

const FS_TYPE: (&str, Parameter) = ("fstype", Parameter::Renamed(&["csi.storage.k8s.io/fstype"]));
const ZONE: (&str, Parameter) = ("zone", Parameter::Zone);
const ZONES: (&str, Parameter) = ("zones", Parameter::Zones);

const EBS_ZONE: &str = "topology.ebs.csi.aws.com/zone";
const GCE_ZONE: &str = "topology.gke.io/zone";
const AZURE_ZONE: &str = "topology.disk.csi.azure.com/zone";
const CINDER_ZONE: &str = "topology.cinder.csi.openstack.org/zone";
const VSPHERE_ZONE: &str = "topology.csi.vmware.com/zone";
const VSPHERE_REGION: &str = "topology.csi.vmware.com/region";

/// The parameters of the drivers of Portworx that name a Secret for each step of a volume's life.
const PORTWORX_SECRET_NAMES: &[&str] = &[
    "csi.storage.k8s.io/provisioner-secret-name",
    "csi.storage.k8s.io/controller-publish-secret-name",
    "csi.storage.k8s.io/node-publish-secret-name",
    "csi.storage.k8s.io/node-stage-secret-name",
    "csi.storage.k8s.io/controller-expand-secret-name",
    "csi.storage.k8s.io/node-expand-secret-name",
];
/// The namespaces of those Secrets.
const PORTWORX_SECRET_NAMESPACES: &[&str] = &[
    "csi.storage.k8s.io/provisioner-secret-namespace",
    "csi.storage.k8s.io/controller-publish-secret-namespace",
    "csi.storage.k8s.io/node-publish-secret-namespace",
    "csi.storage.k8s.io/node-stage-secret-namespace",
    "csi.storage.k8s.io/controller-expand-secret-namespace",
    "csi.storage.k8s.io/node-expand-secret-namespace",
];

/// The migrated plugins.
pub const PLUGINS: &[Plugin] = &[
    Plugin {
        name: "kubernetes.io/aws-ebs",
        driver: "ebs.csi.aws.com",
        source: "awsElasticBlockStore",
        topology: Topology::Zone(EBS_ZONE),
        class: Class {
            zone: Some(EBS_ZONE),
            parameters: &[
                FS_TYPE,
                ZONE,
                ZONES,
                // The in-tree plugin raises the IOPS of small volumes to the minimum of AWS.
                (
                    "iopspergb",
                    Parameter::KeptWith("allowautoiopspergbincrease", "true"),
                ),
            ],
            ..Class::UNCHANGED
        },
        normalizes_access_modes: false,
        translate: sources::aws_ebs,
        inline_name: InlineName::DriverAndHandle,
        inline_access_mode: [ONCE, ONCE],
    },
    Plugin {
        name: "kubernetes.io/gce-pd",
        driver: "pd.csi.storage.gke.io",
        source: "gcePersistentDisk",
        topology: Topology::Zone(GCE_ZONE),
        class: Class {
            zone: Some(GCE_ZONE),
            parameters: &[FS_TYPE, ZONE, ZONES],
            ..Class::UNCHANGED
        },
        normalizes_access_modes: true,
        translate: sources::gce_pd,
        inline_name: InlineName::DriverAndField("pdName"),
        inline_access_mode: [ONCE, READ_ONLY],
    },
    Plugin {
        name: "kubernetes.io/azure-disk",
        driver: "disk.csi.azure.com",
        source: "azureDisk",
        topology: Topology::Unchanged,
        class: Class {
            zone: Some(AZURE_ZONE),
            clears_numbered_zones: true,
            parameters: &[ZONE, ZONES],
            ..Class::UNCHANGED
        },
        normalizes_access_modes: false,
        translate: sources::azure_disk,
        inline_name: InlineName::Handle,
        inline_access_mode: [ONCE, ONCE],
    },
    Plugin {
        name: "kubernetes.io/azure-file",
        driver: "file.csi.azure.com",
        source: "azureFile",
        topology: Topology::Unchanged,
        class: Class::UNCHANGED,
        normalizes_access_modes: false,
        translate: sources::azure_file,
        inline_name: InlineName::Handle,
        inline_access_mode: [MANY, MANY],
    },
    Plugin {
        name: "kubernetes.io/cinder",
        driver: "cinder.csi.openstack.org",
        source: "cinder",
        topology: Topology::Zone(CINDER_ZONE),
        class: Class {
            // The driver reads the parameter `availability` itself.
            zone: Some(CINDER_ZONE),
            parameters: &[FS_TYPE],
            ..Class::UNCHANGED
        },
        normalizes_access_modes: false,
        translate: sources::cinder,
        inline_name: InlineName::DriverAndHandle,
        inline_access_mode: [ONCE, ONCE],
    },
    Plugin {
        name: "kubernetes.io/vsphere-volume",
        driver: "csi.vsphere.vmware.com",
        source: "vsphereVolume",
        topology: Topology::ZoneAndRegion(VSPHERE_ZONE, VSPHERE_REGION),
        class: Class {
            zone: Some(VSPHERE_ZONE),
            parameters: &[
                FS_TYPE,
                (
                    "storagepolicyname",
                    Parameter::Renamed(&["storagepolicyname"]),
                ),
                (
                    "datastore",
                    Parameter::Renamed(&["datastore-migrationparam"]),
                ),
                (
                    "diskformat",
                    Parameter::Renamed(&["diskformat-migrationparam"]),
                ),
                (
                    "hostfailurestotolerate",
                    Parameter::Renamed(&["hostfailurestotolerate-migrationparam"]),
                ),
                (
                    "forceprovisioning",
                    Parameter::Renamed(&["forceprovisioning-migrationparam"]),
                ),
                (
                    "cachereservation",
                    Parameter::Renamed(&["cachereservation-migrationparam"]),
                ),
                (
                    "diskstripes",
                    Parameter::Renamed(&["diskstripes-migrationparam"]),
                ),
                (
                    "objectspacereservation",
                    Parameter::Renamed(&["objectspacereservation-migrationparam"]),
                ),
                (
                    "iopslimit",
                    Parameter::Renamed(&["iopslimit-migrationparam"]),
                ),
            ],
            drops_other_parameters: true,
            // Makes the driver return the path of the volume, by which the in-tree plugin knew it.
            added: &[("csimigration", "true")],
            ..Class::UNCHANGED
        },
        normalizes_access_modes: false,
        translate: sources::vsphere,
        inline_name: InlineName::DriverAndHandle,
        inline_access_mode: [ONCE, ONCE],
    },
    Plugin {
        name: "kubernetes.io/portworx-volume",
        driver: "pxd.portworx.com",
        source: "portworxVolume",
        topology: Topology::Unchanged,
        class: Class {
            parameters: &[
                (
                    sources::PORTWORX_SECRET_NAME,
                    Parameter::Renamed(PORTWORX_SECRET_NAMES),
                ),
                (
                    sources::PORTWORX_SECRET_NAMESPACE,
                    Parameter::Renamed(PORTWORX_SECRET_NAMESPACES),
                ),
            ],
            provisioner: Some("pxd.portworx.com"),
            ..Class::UNCHANGED
        },
        normalizes_access_modes: false,
        translate: sources::portworx,
        inline_name: InlineName::DriverAndHandle,
        inline_access_mode: [ONCE, READ_ONLY],
    },
];
