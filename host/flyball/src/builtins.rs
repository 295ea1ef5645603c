//! The built-in controllers and their policies. Each is granted what RBAC grants its counterpart in
//! kube-controller-manager.

use flyball_plugin::Part;

/// A built-in controller.
#[derive(Debug)]
pub(crate) struct Builtin {
    /// The stem of its file names: a name of the controller, or one from [`FILES`].
    pub(crate) name: &'static str,
    /// The component's SHA-256, in hex.
    pub(crate) digest: &'static str,
    /// The size of the component, in bytes.
    pub(crate) size: usize,
    /// Where its compiled code is.
    pub(crate) part: Part,
}

/// The controller that `--enable-garbage-collector` switches off.
pub(crate) const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";
/// The controller that gives nodes ranges of addresses, if `--allocate-node-cidrs` switches it on.
pub(crate) const NODE_IPAM: &str = "node-ipam-controller";
/// The controller that fills token Secrets, if the host has a key to sign tokens with.
pub(crate) const TOKENS: &str = "serviceaccount-token-controller";

/// The controller that publishes the CA bundle of the API server as a ClusterTrustBundle.
pub(crate) const TRUST_BUNDLES: &str =
    "kube-apiserver-serving-clustertrustbundle-publisher-controller";
/// The controller that signs requests for certificates, if the host has authorities for its signers.
pub(crate) const CERTIFICATES: &str = "certificatesigningrequest-signing-controller";

include!(concat!(env!("OUT_DIR"), "/builtins.rs"));

/// File stems that are not a name of the controller, with the canonical name of the controller.
const FILES: &[(&str, &str)] = &[
    ("rootca", "root-ca-certificate-publisher-controller"),
    ("endpoints", "endpoints-controller"),
    (
        "legacytokencleaner",
        "legacy-serviceaccount-token-cleaner-controller",
    ),
    ("serviceaccounttoken", TOKENS),
    (
        "clusterroleaggregation",
        "clusterrole-aggregation-controller",
    ),
    ("ephemeralvolume", "ephemeral-volume-controller"),
    ("resourceclaim", "resourceclaim-controller"),
    (
        "vacprotection",
        "volumeattributesclass-protection-controller",
    ),
    ("pvprotection", "persistentvolume-protection-controller"),
    (
        "pvcprotection",
        "persistentvolumeclaim-protection-controller",
    ),
    ("tainteviction", "taint-eviction-controller"),
    ("devicetainteviction", "device-taint-eviction-controller"),
    ("ttlafterfinished", "ttl-after-finished-controller"),
    ("servicecidr", "service-cidr-controller"),
    ("clustertrustbundle", TRUST_BUNDLES),
    (
        "podcertificatecleaner",
        "podcertificaterequest-cleaner-controller",
    ),
    ("podgroupprotection", "podgroup-protection-controller"),
    (
        "storageversiongc",
        "storageversion-garbage-collector-controller",
    ),
    (
        "horizontalpodautoscaler",
        "horizontal-pod-autoscaler-controller",
    ),
];

/// The policies by canonical name, in TOML.
pub(crate) const POLICIES: &[(&str, &str)] = &[
    (
        TRUST_BUNDLES,
        include_str!(
            "../../../guests/controllers/kube-apiserver-serving-clustertrustbundle-publisher/policy.toml"
        ),
    ),
    (
        CERTIFICATES,
        include_str!("../../../guests/controllers/certificatesigningrequest-signing/policy.toml"),
    ),
    (
        "bootstrap-signer-controller",
        include_str!("../../../guests/controllers/bootstrap-signer/policy.toml"),
    ),
    (
        "certificatesigningrequest-approving-controller",
        include_str!("../../../guests/controllers/certificatesigningrequest-approving/policy.toml"),
    ),
    (
        "certificatesigningrequest-cleaner-controller",
        include_str!("../../../guests/controllers/certificatesigningrequest-cleaner/policy.toml"),
    ),
    (
        "clusterrole-aggregation-controller",
        include_str!("../../../guests/controllers/clusterrole-aggregation/policy.toml"),
    ),
    (
        "cronjob-controller",
        include_str!("../../../guests/controllers/cronjob/policy.toml"),
    ),
    (
        "daemonset-controller",
        include_str!("../../../guests/controllers/daemonset/policy.toml"),
    ),
    (
        "deployment-controller",
        include_str!("../../../guests/controllers/deployment/policy.toml"),
    ),
    (
        "device-taint-eviction-controller",
        include_str!("../../../guests/controllers/device-taint-eviction/policy.toml"),
    ),
    (
        "ephemeral-volume-controller",
        include_str!("../../../guests/controllers/ephemeral-volume/policy.toml"),
    ),
    (
        "disruption-controller",
        include_str!("../../../guests/controllers/disruption/policy.toml"),
    ),
    (
        "endpoints-controller",
        include_str!("../../../guests/controllers/endpoints/policy.toml"),
    ),
    (
        "endpointslice-controller",
        include_str!("../../../guests/controllers/endpointslice/policy.toml"),
    ),
    (
        "endpointslice-mirroring-controller",
        include_str!("../../../guests/controllers/endpointslice-mirroring/policy.toml"),
    ),
    (
        "horizontal-pod-autoscaler-controller",
        include_str!("../../../guests/controllers/horizontal-pod-autoscaler/policy.toml"),
    ),
    (
        GARBAGE_COLLECTOR,
        include_str!("../../../guests/controllers/garbage-collector/policy.toml"),
    ),
    (
        "job-controller",
        include_str!("../../../guests/controllers/job/policy.toml"),
    ),
    (
        "legacy-serviceaccount-token-cleaner-controller",
        include_str!("../../../guests/controllers/legacy-serviceaccount-token-cleaner/policy.toml"),
    ),
    (
        "namespace-controller",
        include_str!("../../../guests/controllers/namespace/policy.toml"),
    ),
    (
        NODE_IPAM,
        include_str!("../../../guests/controllers/node-ipam/policy.toml"),
    ),
    (
        "node-lifecycle-controller",
        include_str!("../../../guests/controllers/node-lifecycle/policy.toml"),
    ),
    (
        "persistentvolume-protection-controller",
        include_str!("../../../guests/controllers/persistentvolume-protection/policy.toml"),
    ),
    (
        "persistentvolumeclaim-protection-controller",
        include_str!("../../../guests/controllers/persistentvolumeclaim-protection/policy.toml"),
    ),
    (
        "pod-garbage-collector-controller",
        include_str!("../../../guests/controllers/pod-garbage-collector/policy.toml"),
    ),
    (
        "podcertificaterequest-cleaner-controller",
        include_str!("../../../guests/controllers/podcertificaterequest-cleaner/policy.toml"),
    ),
    (
        "podgroup-protection-controller",
        include_str!("../../../guests/controllers/podgroup-protection/policy.toml"),
    ),
    (
        "replicaset-controller",
        include_str!("../../../guests/controllers/replicaset/policy.toml"),
    ),
    (
        "replicationcontroller-controller",
        include_str!("../../../guests/controllers/replicationcontroller/policy.toml"),
    ),
    (
        "resourceclaim-controller",
        include_str!("../../../guests/controllers/resourceclaim/policy.toml"),
    ),
    (
        "resourcequota-controller",
        include_str!("../../../guests/controllers/resourcequota/policy.toml"),
    ),
    (
        "root-ca-certificate-publisher-controller",
        include_str!("../../../guests/controllers/root-ca-certificate-publisher/policy.toml"),
    ),
    (
        "service-cidr-controller",
        include_str!("../../../guests/controllers/service-cidr/policy.toml"),
    ),
    (
        "serviceaccount-controller",
        include_str!("../../../guests/controllers/serviceaccount/policy.toml"),
    ),
    (
        TOKENS,
        include_str!("../../../guests/controllers/serviceaccount-token/policy.toml"),
    ),
    (
        "storageversion-garbage-collector-controller",
        include_str!("../../../guests/controllers/storageversion-garbage-collector/policy.toml"),
    ),
    (
        "token-cleaner-controller",
        include_str!("../../../guests/controllers/token-cleaner/policy.toml"),
    ),
    (
        "taint-eviction-controller",
        include_str!("../../../guests/controllers/taint-eviction/policy.toml"),
    ),
    (
        "ttl-after-finished-controller",
        include_str!("../../../guests/controllers/ttl-after-finished/policy.toml"),
    ),
    (
        "ttl-controller",
        include_str!("../../../guests/controllers/ttl/policy.toml"),
    ),
    (
        "volumeattributesclass-protection-controller",
        include_str!("../../../guests/controllers/volumeattributesclass-protection/policy.toml"),
    ),
    (
        "statefulset-controller",
        include_str!("../../../guests/controllers/statefulset/policy.toml"),
    ),
];

impl Builtin {
    pub(crate) fn canonical_name(&self) -> &'static str {
        let of_file = FILES
            .iter()
            .find(|(file, _)| *file == self.name)
            .map(|(_, name)| *name);
        of_file
            .or_else(|| crate::kcm::controllers::canonical(self.name))
            .unwrap_or(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcm::controllers::canonical;

    #[test]
    fn all_names_are_canonical() {
        for (_, name) in FILES {
            assert_eq!(canonical(name), Some(*name));
        }
        for (name, policy) in POLICIES {
            assert_eq!(canonical(name), Some(*name));
            assert!(policy.contains(&format!("\n[plugins.{name}]\n")), "{name}");
        }
    }

    #[test]
    fn the_canonical_name_follows_from_an_alias_or_the_table() {
        let name = |name| {
            Builtin {
                name,
                digest: "",
                size: 0,
                part: Part::Frame(&[]),
            }
            .canonical_name()
        };
        assert_eq!(
            name("replicationcontroller"),
            "replicationcontroller-controller"
        );
        assert_eq!(name("cronjob"), "cronjob-controller");
        assert_eq!(name("rootca"), "root-ca-certificate-publisher-controller");
        assert_eq!(
            name("legacytokencleaner"),
            "legacy-serviceaccount-token-cleaner-controller"
        );
        assert_eq!(
            name("serviceaccounttoken"),
            "serviceaccount-token-controller"
        );
    }
}
