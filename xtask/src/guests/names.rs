//! The names of the guests that are needed without any test: those of the host, and those of the demo.

/// The guests that are embedded in the host.
pub const BUILT_INS: &[&str] = &[
    "serviceaccount",
    "serviceaccounttoken",
    "rootca",
    "legacytokencleaner",
    "replicaset",
    "replicationcontroller",
    "deployment",
    "statefulset",
    "daemonset",
    "job",
    "cronjob",
    "disruption",
    "endpoints",
    "endpointslice",
    "endpointslicemirroring",
    "namespace",
    "garbagecollector",
    "ttlafterfinished",
    "pvcprotection",
    "pvprotection",
    "vacprotection",
    "ephemeralvolume",
    "clusterroleaggregation",
    "podgc",
    "resourceclaim",
    "resourcequota",
    "csrsigning",
    "clustertrustbundle",
    "ttl",
    "servicecidr",
    "csrapproving",
    "csrcleaner",
    "bootstrapsigner",
    "tokencleaner",
    "podcertificatecleaner",
    "podgroupprotection",
    "storageversiongc",
    "nodeipam",
    "nodelifecycle",
    "tainteviction",
    "devicetainteviction",
    "horizontalpodautoscaler",
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
