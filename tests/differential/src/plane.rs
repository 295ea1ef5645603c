//! The planes: the kinds of control plane for scenarios, and the controllers that run on each.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use flyball_cluster_tests::{Cluster, MetricsApi};
use flyball_controllers::{Controller, Start, built_in};
use flyball_controlplane::{Options, Release};

use crate::{Subject, later};

/// A kind of control plane. Each set of scenarios is played on a fresh one.
#[derive(Debug, PartialEq, Eq)]
pub struct Plane {
    /// The name by which the controllers' manifests refer to it.
    name: &'static str,
    /// Other controllers that run on it, besides those whose scenarios are played on it and those of [`EVERYWHERE`].
    helpers: &'static [&'static str],
    /// Whether its scenarios keep the machine busy. If so, no other control plane runs at the same time,
    /// since the number of their writes depends on timing.
    pub(crate) is_busy: bool,
    /// Whether the metrics APIs are served.
    has_metrics: bool,
    /// Whether the fake CSI drivers run.
    has_csi: bool,
    /// Whether the sample cloud runs, with the cloud controller manager.
    pub(crate) has_cloud: bool,
    /// Additional flags for the cloud controller manager.
    pub(crate) cloud_flags: &'static [&'static str],
    /// Additional flags for the controllers, which override others.
    flags: &'static [&'static str],
    /// Additional flags for the API server.
    apiserver_flags: &'static [&'static str],
    /// The flags that the controllers and the API server need in addition in Kubernetes 1.36, where an API is in beta.
    until_1_36: (&'static [&'static str], &'static [&'static str]),
    /// The flags that the API server needs in addition from Kubernetes 1.37 on.
    since_1_37: &'static [&'static str],
}

/// All planes. A controller that would interfere with the scenarios of other controllers has a
/// separate plane: the garbage collector, and the cleaner of legacy tokens, which also reads Secrets
/// only once, when it starts.
static PLANES: &[Plane] = &[
    SIGNING,
    WORKLOADS,
    NAMESPACES,
    GARBAGE,
    LEGACY_TOKENS,
    HOUSEKEEPING,
    PODS,
    DEVICES,
    QUOTAS,
    CLUSTER,
    RANGES,
    CERTIFICATES,
    BOOTSTRAP,
    NODES,
    TAINTS,
    DEVICE_TAINTS,
    GANGS,
    POD_CERTIFICATES,
    STORAGE_VERSIONS,
    TRUST_BUNDLES,
    SERVICES,
    AUTOSCALERS,
    VOLUMES,
    ATTACHMENTS,
    BOUND_VOLUMES,
    MIGRATIONS,
    RESOURCE_POOLS,
    EVICTIONS,
    CLOUD,
    CLOUD_SERVICES,
    CLOUD_ROUTES,
];

/// The controllers of each plane: without service accounts and the CA bundle, no pod is admitted.
const EVERYWHERE: [&str; 2] = [
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
];

/// The settings that most planes share.
const QUIET: Plane = Plane {
    name: "",
    helpers: &[],
    is_busy: false,
    has_metrics: false,
    has_csi: false,
    has_cloud: false,
    cloud_flags: &[],
    flags: &[],
    apiserver_flags: &[],
    until_1_36: (&[], &[]),
    since_1_37: &[],
};

/// The plane of the controllers that create pods.
pub const WORKLOADS: Plane = Plane {
    name: "workloads",
    is_busy: true,
    ..QUIET
};

const NAMESPACES: Plane = Plane {
    name: "namespaces",
    helpers: &["deployment-controller", "replicaset-controller"],
    ..QUIET
};

const GARBAGE: Plane = Plane {
    name: "garbage",
    helpers: &["deployment-controller", "replicaset-controller"],
    ..QUIET
};

const LEGACY_TOKENS: Plane = Plane {
    name: "legacy-tokens",
    // With a key, stock always runs the serviceaccount-token-controller, which writes to the Secrets
    // that the cleaner reads.
    flags: &["--service-account-private-key-file="],
    ..QUIET
};

/// The plane of small controllers that don't interfere with each other. The garbage collector deletes
/// what they delete in the foreground.
const HOUSEKEEPING: Plane = Plane {
    name: "housekeeping",
    helpers: &["garbage-collector-controller", "job-controller"],
    ..QUIET
};

/// The plane of the controllers that act on single pods. On the plane above, the scenarios create the
/// claims of ephemeral volumes.
const PODS: Plane = Plane {
    name: "pods",
    helpers: &[
        "garbage-collector-controller",
        "persistentvolumeclaim-protection-controller",
    ],
    // More than the scenarios without a separate control plane have together.
    flags: &["--terminated-pod-gc-threshold=12"],
    ..QUIET
};

/// The plane of claims for devices. The scenarios allocate them: no driver offers any device.
const DEVICES: Plane = Plane {
    name: "devices",
    helpers: &["garbage-collector-controller"],
    ..QUIET
};

/// The plane of quotas. Quotas count the objects of all other controllers in their namespaces.
const QUOTAS: Plane = Plane {
    name: "quotas",
    helpers: &["replicaset-controller"],
    ..QUIET
};

/// The plane of the controllers of nodes and of ranges of addresses.
const CLUSTER: Plane = Plane {
    name: "cluster",
    ..QUIET
};

/// The plane of the ranges of nodes. The three fake nodes have those below `10.192.0.0`.
const RANGES: Plane = Plane {
    name: "ranges",
    flags: &[
        "--allocate-node-cidrs=true",
        "--cluster-cidr=10.0.0.0/8,fd00:10:244::/56",
        "--node-cidr-mask-size-ipv4=16",
        "--service-cluster-ip-range=10.192.0.0/15,fd00:10:96::/108",
    ],
    ..QUIET
};

/// The plane of the controllers of certificates. The cleaner checks requests when it starts, and an
/// hour later.
const CERTIFICATES: Plane = Plane {
    name: "certificates",
    // Stock's cleaner does not wait for its cache: without a delay, it finds no requests when it
    // starts.
    flags: &["--controller-start-interval=2s"],
    ..QUIET
};

/// The plane of bootstrap tokens.
const BOOTSTRAP: Plane = Plane {
    name: "bootstrap",
    ..QUIET
};

/// The plane of silent nodes. The fake nodes have heartbeats each 10 s; the nodes of the scenarios have none, so that
/// they soon fall silent. Each scenario has a zone of its own.
const NODES: Plane = Plane {
    name: "nodes",
    helpers: &["taint-eviction-controller"],
    flags: &[
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=25s",
        "--node-startup-grace-period=8s",
        "--node-eviction-rate=5",
    ],
    ..QUIET
};

/// The plane of taints that evict pods. Stock's taint-eviction-controller fails unless the node-lifecycle-controller,
/// which defines one of its indexes, runs too. The nodes of the scenarios have no kubelets, so their silence is
/// ignored.
const TAINTS: Plane = Plane {
    name: "taints",
    helpers: &["node-lifecycle-controller"],
    flags: &[
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=1h",
        "--node-startup-grace-period=1h",
    ],
    ..QUIET
};

/// The plane of taints that evict the pods that use devices. The scenarios allocate the devices themselves.
const DEVICE_TAINTS: Plane = Plane {
    name: "device-taints",
    until_1_36: (
        &["--feature-gates=DRADeviceTaintRules=true"],
        &[
            "--feature-gates=DRADeviceTaintRules=true",
            "--runtime-config=resource.k8s.io/v1beta2=true",
        ],
    ),
    ..QUIET
};

/// The plane of Jobs whose pods are scheduled together. The garbage collector deletes what they leave behind. Lists are
/// requested in pages here, and streamed on all other planes.
const GANGS: Plane = Plane {
    name: "gangs",
    helpers: &["garbage-collector-controller", "job-controller"],
    flags: &["--feature-gates=GenericWorkload=true,WatchListClient=false,WorkloadWithJob=true"],
    apiserver_flags: &["--feature-gates=GenericWorkload=true,WorkloadWithJob=true"],
    until_1_36: (&[], &["--runtime-config=scheduling.k8s.io/v1alpha2=true"]),
    since_1_37: &["--runtime-config=scheduling.k8s.io/v1beta1=true"],
    ..QUIET
};

/// The plane of the cleaner of PodCertificateRequests, which checks them when it starts, and five minutes later.
const POD_CERTIFICATES: Plane = Plane {
    name: "pod-certificates",
    // The same interval as on the plane of certificates.
    flags: &["--controller-start-interval=2s"],
    until_1_36: (
        &["--feature-gates=PodCertificateRequest=true"],
        &[
            "--feature-gates=PodCertificateRequest=true",
            "--runtime-config=certificates.k8s.io/v1beta1/podcertificaterequests=true",
        ],
    ),
    ..QUIET
};

/// The plane of StorageVersions. The scenarios have API servers of their own, which are only Leases.
const STORAGE_VERSIONS: Plane = Plane {
    name: "storage-versions",
    flags: &["--feature-gates=StorageVersionAPI=true"],
    apiserver_flags: &[
        "--feature-gates=StorageVersionAPI=true",
        "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
    ],
    ..QUIET
};

/// The plane of the bundle of the API server. It is a single object, so each scenario is alone.
const TRUST_BUNDLES: Plane = Plane {
    name: "trust-bundles",
    until_1_36: (
        &["--feature-gates=ClusterTrustBundle=true"],
        &[
            "--feature-gates=ClusterTrustBundle=true",
            "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
        ],
    ),
    ..QUIET
};

/// The plane of the signer of certificates. On a plane with the approver, it would sign what that approves.
const SIGNING: Plane = Plane {
    name: "signing",
    ..QUIET
};

/// The plane of the controllers of Endpoints and EndpointSlices. All of them see each Service.
const SERVICES: Plane = Plane {
    name: "services",
    helpers: &["replicaset-controller"],
    // So few that several slices need few pods.
    flags: &[
        "--max-endpoints-per-slice=3",
        "--mirroring-max-endpoints-per-subset=3",
    ],
    ..QUIET
};

/// The plane of autoscalers. Nobody acts on what they scale: the scenarios create the pods, with the states that
/// matter.
const AUTOSCALERS: Plane = Plane {
    name: "autoscalers",
    has_metrics: true,
    flags: &[
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--horizontal-pod-autoscaler-downscale-stabilization=1s",
    ],
    ..QUIET
};

/// Without this, persistentvolumeclaim-protection-controller writes the status of each claim when it is bound, at the same
/// time as the controllers of volumes.
const UNUSED_SINCE: &str = "--feature-gates=PersistentVolumeClaimUnusedSinceTime=false";

/// The plane of volumes. Claims that wait are looked at every second. The scenarios play schedulers and external
/// provisioners; the pods of scenarios that use claims are on nodes.
const VOLUMES: Plane = Plane {
    name: "volumes",
    helpers: &[
        "persistentvolume-protection-controller",
        "persistentvolumeclaim-protection-controller",
    ],
    flags: &[
        UNUSED_SINCE,
        "--enable-hostpath-provisioner=true",
        "--pvclaimbinder-sync-period=1s",
    ],
    ..QUIET
};

/// The plane of attachments. The scenarios bind claims to volumes, play the kubelets and, for most volumes, the attachers, so
/// that no other controller of volumes writes to their objects.
const ATTACHMENTS: Plane = Plane {
    name: "attachments",
    has_csi: true,
    flags: &["--attach-detach-reconcile-sync-period=2s"],
    ..QUIET
};

/// The plane of the controllers of bound volumes. Nobody binds volumes here: the scenarios write the statuses of claims.
const BOUND_VOLUMES: Plane = Plane {
    name: "bound-volumes",
    helpers: &[
        "persistentvolume-protection-controller",
        "persistentvolumeclaim-protection-controller",
    ],
    flags: &[UNUSED_SINCE],
    ..QUIET
};

/// The plane of migrations to other storage versions. Stock migrates the objects in the cache of its garbage collector.
const MIGRATIONS: Plane = Plane {
    name: "migrations",
    helpers: &["garbage-collector-controller"],
    until_1_36: (
        &["--feature-gates=StorageVersionMigrator=true"],
        &[
            "--feature-gates=StorageVersionMigrator=true",
            "--runtime-config=storagemigration.k8s.io/v1beta1=true",
        ],
    ),
    ..QUIET
};

/// The plane of pools of devices. The scenarios publish the devices and allocate them.
const RESOURCE_POOLS: Plane = Plane {
    name: "resource-pools",
    flags: &["--feature-gates=DRAResourcePoolStatus=true"],
    apiserver_flags: &[
        "--feature-gates=DRAResourcePoolStatus=true",
        "--runtime-config=resource.k8s.io/v1alpha3=true",
    ],
    ..QUIET
};

/// The plane of Evictions and their requests. The scenarios play all responders but the one that each pod has. The pods of most
/// scenarios are never scheduled, or stay when they have ended.
const EVICTIONS: Plane = Plane {
    name: "evictions",
    helpers: &["disruption-controller", "garbage-collector-controller"],
    flags: &["--feature-gates=EvictionRequestAPI=true"],
    apiserver_flags: &[
        "--feature-gates=EvictionRequestAPI=true",
        "--runtime-config=lifecycle.k8s.io/v1alpha1=true",
    ],
    ..QUIET
};

/// The plane of the nodes of a cloud. The scenarios create the instances, and the nodes without kubelets.
const CLOUD: Plane = Plane {
    name: "cloud",
    has_cloud: true,
    cloud_flags: &[
        "--node-monitor-period=1s",
        "--node-status-update-frequency=2s",
    ],
    ..QUIET
};

/// The plane of load balancers. Their nodes are those of all scenarios, so a scenario that creates nodes is alone.
const CLOUD_SERVICES: Plane = Plane {
    name: "cloud-services",
    has_cloud: true,
    ..QUIET
};

/// The plane of routes. Each scenario has ranges of its own.
const CLOUD_ROUTES: Plane = Plane {
    name: "cloud-routes",
    has_cloud: true,
    cloud_flags: &[
        "--cluster-cidr=10.244.0.0/16,fd00:1::/48",
        "--route-reconciliation-period=1s",
    ],
    ..QUIET
};

impl Plane {
    /// The plane of a controller's scenarios, given its folder.
    ///
    /// # Errors
    /// There is no such folder, or its manifest names no plane of the table.
    pub(crate) fn of(folder: &str) -> Result<&'static Self> {
        let name = built_in()
            .find(|(_, guest)| guest.folder == folder)
            .with_context(|| format!("guests/controllers has no {folder}"))?
            .1
            .scenarios
            .plane;
        let found = PLANES.iter().find(|plane| plane.name == name);
        found.with_context(|| {
            format!("{folder}/controller.toml names the plane {name}, which tests/differential/src/plane.rs lacks")
        })
    }

    /// The name of the plane, and of its golden of metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The options of its control plane.
    ///
    /// # Errors
    /// There is no control plane of the release that the environment chooses.
    pub fn options(&self) -> Result<Options> {
        let (_, more) = self.of_release()?;
        let flags = self.apiserver_flags.iter().chain(more);
        Ok(Options {
            apiserver_args: flags.map(|flag| (*flag).to_owned()).collect(),
            ..Options::default()
        })
    }

    /// The additional flags for the controllers.
    ///
    /// # Errors
    /// As [`options`](Self::options).
    pub(crate) fn flags(&self) -> Result<Vec<&'static str>> {
        let (more, _) = self.of_release()?;
        Ok(self.flags.iter().chain(more).copied().collect())
    }

    /// The flags that the chosen release needs in addition, for the controllers and for the API server.
    fn of_release(&self) -> Result<(&'static [&'static str], &'static [&'static str])> {
        Ok(match Release::chosen()?.minor {
            ..=36 => self.until_1_36,
            37.. => (&[], self.since_1_37),
        })
    }

    /// Starts a control plane with these options, and the CSI drivers or the cloud if its scenarios need them.
    ///
    /// # Errors
    /// It can't be started.
    pub async fn start(&self, options: Options) -> Result<Cluster> {
        let mut cluster = Cluster::start(options).await?;
        if self.has_csi {
            cluster.add_csi_drivers()?;
        }
        if self.has_cloud {
            cluster.start_cloud().await?;
        }
        later::create_roles(&cluster, self).await?;
        Ok(cluster)
    }

    /// Starts the metrics APIs if its scenarios need them. They are served until the returned value is dropped.
    ///
    /// # Errors
    /// They can't be served or registered.
    pub async fn start_metrics_api(&self, cluster: &Cluster) -> Result<Option<MetricsApi>> {
        Ok(match self.has_metrics {
            true => Some(MetricsApi::start(cluster).await?),
            false => None,
        })
    }

    /// The controllers of kube-controller-manager that this subject runs, in the syntax of `--controllers`.
    pub(crate) fn controllers(&self, subject: Subject) -> String {
        let has = |controller: &Controller| {
            controller.start != Start::Cloud
                && (subject == Subject::Flyball || controller.since.is_none())
        };
        let all: BTreeSet<&str> = self
            .own(has)
            .chain(self.helpers.iter().copied())
            .chain(EVERYWHERE)
            .collect();
        Vec::from_iter(all).join(",")
    }

    /// The controllers that only a later release of kube-controller-manager has.
    pub(crate) fn later_controllers(&self) -> impl Iterator<Item = &'static Controller> {
        let own = built_in().filter(|(_, guest)| guest.scenarios.plane == self.name);
        own.map(|(controller, _)| controller)
            .filter(|controller| controller.since.is_some())
    }

    /// The controllers of cloud-controller-manager, in the syntax of `--controllers`.
    pub(crate) fn cloud_controllers(&self) -> String {
        let all: BTreeSet<&str> = self
            .own(|controller| controller.start == Start::Cloud)
            .collect();
        Vec::from_iter(all).join(",")
    }

    /// The names of these of the controllers whose scenarios are played on the plane.
    fn own(&self, has: impl Fn(&Controller) -> bool) -> impl Iterator<Item = &'static str> {
        let own = built_in().filter(|(_, guest)| guest.scenarios.plane == self.name);
        own.filter(move |(controller, _)| has(controller))
            .map(|(controller, _)| controller.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_has_a_plane_and_each_plane_has_a_controller() {
        for (_, guest) in built_in() {
            Plane::of(guest.folder).unwrap();
        }
        for plane in PLANES {
            let is_used = built_in().any(|(_, guest)| guest.scenarios.plane == plane.name);
            assert!(is_used, "{}", plane.name);
        }
    }
}
