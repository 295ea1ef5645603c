//! The names of the guests that are needed without any test: those of the host, and those of the demo.

/// The guests that are embedded in the host.
pub const BUILT_INS: &[&str] = &[
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "deployment-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "ttl-after-finished-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "volumeattributesclass-protection-controller",
    "ephemeral-volume-controller",
    "clusterrole-aggregation-controller",
    "pod-garbage-collector-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "certificatesigningrequest-signing-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "ttl-controller",
    "service-cidr-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "bootstrap-signer-controller",
    "token-cleaner-controller",
    "podcertificaterequest-cleaner-controller",
    "podgroup-protection-controller",
    "storageversion-garbage-collector-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "device-taint-eviction-controller",
    "horizontal-pod-autoscaler-controller",
];

/// A guest that the demo runs as a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    FakeKubelet,
    Greeter,
}

impl Guest {
    const ALL: [Self; 2] = [Self::FakeKubelet, Self::Greeter];

    /// The name of the component.
    pub fn name(self) -> &'static str {
        match self {
            Self::FakeKubelet => "fake-kubelet",
            Self::Greeter => "greeter",
        }
    }
}

/// Whether the guest of this name is embedded in the host, or one of the demo.
pub fn is_for_host(name: &str) -> bool {
    BUILT_INS.contains(&name) || Guest::ALL.iter().any(|guest| guest.name() == name)
}
