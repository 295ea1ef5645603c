//! The planes: the kinds of control plane for scenarios, and the controllers that run on each.

use anyhow::{Context, Result};
use flyball_cluster_tests::{Cluster, MetricsApi};
use flyball_controlplane::Options;

use crate::Scenario;

/// A kind of control plane. Each set of scenarios is played on a fresh one.
#[derive(Debug, PartialEq, Eq)]
pub struct Plane {
    /// The folders of its scenarios: names of controllers without `-controller`.
    folders: &'static [&'static str],
    /// The controllers that run on it, besides those of [`EVERYWHERE`].
    controllers: &'static [&'static str],
    /// Whether its scenarios keep the machine busy. If so, no other control plane runs at the same time, since the
    /// number of their writes depends on timing.
    pub(crate) is_busy: bool,
    /// Whether the metrics APIs are served.
    has_metrics: bool,
    /// Additional flags for the controllers, which override others.
    pub(crate) flags: &'static [&'static str],
    /// Additional flags for the API server.
    pub(crate) apiserver_flags: &'static [&'static str],
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
];

/// The controllers of each plane: without service accounts and the CA bundle, no pod is admitted.
const EVERYWHERE: [&str; 2] = [
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
];

/// The settings that most planes share.
const QUIET: Plane = Plane {
    folders: &[],
    controllers: &[],
    is_busy: false,
    has_metrics: false,
    flags: &[],
    apiserver_flags: &[],
};

/// The plane of the controllers that create pods.
pub const WORKLOADS: Plane = Plane {
    folders: &[
        "cronjob",
        "daemonset",
        "deployment",
        "disruption",
        "job",
        "replicaset",
        "replicationcontroller",
        "root-ca-certificate-publisher",
        "serviceaccount",
        "statefulset",
    ],
    controllers: &[
        "cronjob-controller",
        "daemonset-controller",
        "deployment-controller",
        "disruption-controller",
        "job-controller",
        "replicaset-controller",
        "replicationcontroller-controller",
        "statefulset-controller",
    ],
    is_busy: true,
    ..QUIET
};

const NAMESPACES: Plane = Plane {
    folders: &["namespace", "serviceaccount-token"],
    controllers: &[
        "deployment-controller",
        "namespace-controller",
        "replicaset-controller",
        "serviceaccount-token-controller",
    ],
    ..QUIET
};

const GARBAGE: Plane = Plane {
    folders: &["garbage-collector"],
    controllers: &[
        "deployment-controller",
        "garbage-collector-controller",
        "replicaset-controller",
    ],
    ..QUIET
};

const LEGACY_TOKENS: Plane = Plane {
    folders: &["legacy-serviceaccount-token-cleaner"],
    controllers: &["legacy-serviceaccount-token-cleaner-controller"],
    // With a key, stock always runs the serviceaccount-token-controller, which writes to the Secrets
    // that the cleaner reads.
    flags: &["--service-account-private-key-file="],
    ..QUIET
};

/// The plane of small controllers that don't interfere with each other. The garbage collector deletes
/// what they delete in the foreground.
const HOUSEKEEPING: Plane = Plane {
    folders: &[
        "clusterrole-aggregation",
        "persistentvolume-protection",
        "persistentvolumeclaim-protection",
        "ttl-after-finished",
        "volumeattributesclass-protection",
    ],
    controllers: &[
        "clusterrole-aggregation-controller",
        "garbage-collector-controller",
        "job-controller",
        "persistentvolume-protection-controller",
        "persistentvolumeclaim-protection-controller",
        "ttl-after-finished-controller",
        "volumeattributesclass-protection-controller",
    ],
    ..QUIET
};

/// The plane of the controllers that act on single pods. On the plane above, the scenarios create the
/// claims of ephemeral volumes.
const PODS: Plane = Plane {
    folders: &["ephemeral-volume", "pod-garbage-collector"],
    controllers: &[
        "ephemeral-volume-controller",
        "garbage-collector-controller",
        "persistentvolumeclaim-protection-controller",
        "pod-garbage-collector-controller",
    ],
    // More than the scenarios without a separate control plane have together.
    flags: &["--terminated-pod-gc-threshold=12"],
    ..QUIET
};

/// The plane of claims for devices. The scenarios allocate them: no driver offers any device.
const DEVICES: Plane = Plane {
    folders: &["resourceclaim"],
    controllers: &["garbage-collector-controller", "resourceclaim-controller"],
    ..QUIET
};

/// The plane of quotas. Quotas count the objects of all other controllers in their namespaces.
const QUOTAS: Plane = Plane {
    folders: &["resourcequota"],
    controllers: &["replicaset-controller", "resourcequota-controller"],
    ..QUIET
};

/// The plane of the controllers of nodes and of ranges of addresses.
const CLUSTER: Plane = Plane {
    folders: &["service-cidr", "ttl"],
    controllers: &["service-cidr-controller", "ttl-controller"],
    ..QUIET
};

/// The plane of the ranges of nodes. The three fake nodes have those below `10.192.0.0`.
const RANGES: Plane = Plane {
    folders: &["node-ipam"],
    controllers: &["node-ipam-controller"],
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
    folders: &[
        "certificatesigningrequest-approving",
        "certificatesigningrequest-cleaner",
    ],
    controllers: &[
        "certificatesigningrequest-approving-controller",
        "certificatesigningrequest-cleaner-controller",
    ],
    // Stock's cleaner does not wait for its cache: without a delay, it finds no requests when it
    // starts.
    flags: &["--controller-start-interval=2s"],
    ..QUIET
};

/// The plane of bootstrap tokens.
const BOOTSTRAP: Plane = Plane {
    folders: &["bootstrap-signer", "token-cleaner"],
    controllers: &["bootstrap-signer-controller", "token-cleaner-controller"],
    ..QUIET
};

/// The plane of silent nodes. The fake nodes have heartbeats each 10 s; the nodes of the scenarios have none, so that they
/// soon fall silent. Each scenario has a zone of its own.
const NODES: Plane = Plane {
    folders: &["node-lifecycle"],
    controllers: &["node-lifecycle-controller", "taint-eviction-controller"],
    flags: &[
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=25s",
        "--node-startup-grace-period=8s",
        "--node-eviction-rate=5",
    ],
    ..QUIET
};

/// The plane of taints that evict pods. Stock's taint-eviction-controller fails unless the node-lifecycle-controller, which
/// defines one of its indexes, runs too. The nodes of the scenarios have no kubelets, so their silence is ignored.
const TAINTS: Plane = Plane {
    folders: &["taint-eviction"],
    controllers: &["node-lifecycle-controller", "taint-eviction-controller"],
    flags: &[
        "--node-monitor-period=1s",
        "--node-monitor-grace-period=1h",
        "--node-startup-grace-period=1h",
    ],
    ..QUIET
};

/// The plane of taints that evict the pods that use devices. The scenarios allocate the devices themselves.
const DEVICE_TAINTS: Plane = Plane {
    folders: &["device-taint-eviction"],
    controllers: &["device-taint-eviction-controller"],
    flags: &["--feature-gates=DRADeviceTaintRules=true"],
    apiserver_flags: &[
        "--feature-gates=DRADeviceTaintRules=true",
        "--runtime-config=resource.k8s.io/v1beta2=true",
    ],
    ..QUIET
};

/// The plane of Jobs whose pods are scheduled together. The garbage collector deletes what they leave behind. Lists are requested in
/// pages here, and streamed on all other planes.
const GANGS: Plane = Plane {
    folders: &["podgroup-protection"],
    controllers: &[
        "garbage-collector-controller",
        "job-controller",
        "podgroup-protection-controller",
    ],
    flags: &["--feature-gates=GenericWorkload=true,WatchListClient=false,WorkloadWithJob=true"],
    apiserver_flags: &[
        "--feature-gates=GenericWorkload=true,WorkloadWithJob=true",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    ],
    ..QUIET
};

/// The plane of the cleaner of PodCertificateRequests, which checks them when it starts, and five minutes later.
const POD_CERTIFICATES: Plane = Plane {
    folders: &["podcertificaterequest-cleaner"],
    controllers: &["podcertificaterequest-cleaner-controller"],
    // The same interval as on the plane of certificates.
    flags: &[
        "--controller-start-interval=2s",
        "--feature-gates=PodCertificateRequest=true",
    ],
    apiserver_flags: &[
        "--feature-gates=PodCertificateRequest=true",
        "--runtime-config=certificates.k8s.io/v1beta1/podcertificaterequests=true",
    ],
    ..QUIET
};

/// The plane of StorageVersions. The scenarios have API servers of their own, which are only Leases.
const STORAGE_VERSIONS: Plane = Plane {
    folders: &["storageversion-garbage-collector"],
    controllers: &["storageversion-garbage-collector-controller"],
    flags: &["--feature-gates=StorageVersionAPI=true"],
    apiserver_flags: &[
        "--feature-gates=StorageVersionAPI=true",
        "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
    ],
    ..QUIET
};

/// The plane of the bundle of the API server. It is a single object, so each scenario is alone.
const TRUST_BUNDLES: Plane = Plane {
    folders: &["kube-apiserver-serving-clustertrustbundle-publisher"],
    controllers: &["kube-apiserver-serving-clustertrustbundle-publisher-controller"],
    flags: &["--feature-gates=ClusterTrustBundle=true"],
    apiserver_flags: &[
        "--feature-gates=ClusterTrustBundle=true",
        "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true",
    ],
    ..QUIET
};

/// The plane of the signer of certificates. On a plane with the approver, it would sign what that approves.
const SIGNING: Plane = Plane {
    folders: &["certificatesigningrequest-signing"],
    controllers: &["certificatesigningrequest-signing-controller"],
    ..QUIET
};

/// The plane of the controllers of Endpoints and EndpointSlices. All of them see each Service.
const SERVICES: Plane = Plane {
    folders: &["endpoints", "endpointslice", "endpointslice-mirroring"],
    controllers: &[
        "endpoints-controller",
        "endpointslice-controller",
        "endpointslice-mirroring-controller",
        "replicaset-controller",
    ],
    // So few that several slices need few pods.
    flags: &[
        "--max-endpoints-per-slice=3",
        "--mirroring-max-endpoints-per-subset=3",
    ],
    ..QUIET
};

/// The plane of autoscalers. Nobody acts on what they scale: the scenarios create the pods, with the states that matter.
const AUTOSCALERS: Plane = Plane {
    folders: &["horizontal-pod-autoscaler"],
    controllers: &["horizontal-pod-autoscaler-controller"],
    has_metrics: true,
    flags: &[
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--horizontal-pod-autoscaler-downscale-stabilization=1s",
    ],
    ..QUIET
};

impl Plane {
    /// The plane of a folder of scenarios.
    ///
    /// # Errors
    /// No plane has the folder.
    pub(crate) fn of(folder: &str) -> Result<&'static Self> {
        let found = PLANES.iter().find(|plane| plane.folders.contains(&folder));
        found.with_context(|| {
            format!("no plane has the scenarios of {folder}: add the folder to one in tests/differential/src/plane.rs")
        })
    }

    /// The name of the plane's golden of metrics: its first folder.
    pub fn name(&self) -> &'static str {
        self.folders.first().copied().unwrap_or_default()
    }

    /// Whether these are all scenarios that are played together on it.
    pub(crate) fn is_played_whole(&self, scenarios: &[Scenario]) -> Result<bool> {
        let all = Scenario::all()?;
        let own = all
            .iter()
            .filter(|one| !one.alone && one.plane().is_ok_and(|plane| plane == self));
        Ok(own
            .map(|one| &one.name)
            .all(|name| scenarios.iter().any(|scenario| scenario.name == *name)))
    }

    /// The options of its control plane.
    pub fn options(&self) -> Options {
        let flags = self.apiserver_flags.iter();
        Options {
            apiserver_args: flags.map(|flag| (*flag).to_owned()).collect(),
            ..Options::default()
        }
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

    /// The controllers, in the syntax of `--controllers`.
    pub(crate) fn controllers(&self) -> String {
        [self.controllers, &EVERYWHERE].concat().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_is_in_one_plane_that_runs_its_controller() {
        let mut seen = Vec::new();
        for plane in PLANES {
            for folder in plane.folders {
                let controller = format!("{folder}-controller");
                let running = plane.controllers();
                assert!(running.split(',').any(|one| one == controller), "{folder}");
                assert!(!seen.contains(folder), "{folder}");
                seen.push(folder);
            }
        }
    }
}
