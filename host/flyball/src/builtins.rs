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
            "../policies/kube-apiserver-serving-clustertrustbundle-publisher-controller.toml"
        ),
    ),
    (
        CERTIFICATES,
        include_str!("../policies/certificatesigningrequest-signing-controller.toml"),
    ),
    (
        "bootstrap-signer-controller",
        include_str!("../policies/bootstrap-signer-controller.toml"),
    ),
    (
        "certificatesigningrequest-approving-controller",
        include_str!("../policies/certificatesigningrequest-approving-controller.toml"),
    ),
    (
        "certificatesigningrequest-cleaner-controller",
        include_str!("../policies/certificatesigningrequest-cleaner-controller.toml"),
    ),
    (
        "clusterrole-aggregation-controller",
        include_str!("../policies/clusterrole-aggregation-controller.toml"),
    ),
    (
        "cronjob-controller",
        include_str!("../policies/cronjob-controller.toml"),
    ),
    (
        "daemonset-controller",
        include_str!("../policies/daemonset-controller.toml"),
    ),
    (
        "deployment-controller",
        include_str!("../policies/deployment-controller.toml"),
    ),
    (
        "device-taint-eviction-controller",
        include_str!("../policies/device-taint-eviction-controller.toml"),
    ),
    (
        "ephemeral-volume-controller",
        include_str!("../policies/ephemeral-volume-controller.toml"),
    ),
    (
        "disruption-controller",
        include_str!("../policies/disruption-controller.toml"),
    ),
    (
        "endpoints-controller",
        include_str!("../policies/endpoints-controller.toml"),
    ),
    (
        "endpointslice-controller",
        include_str!("../policies/endpointslice-controller.toml"),
    ),
    (
        "endpointslice-mirroring-controller",
        include_str!("../policies/endpointslice-mirroring-controller.toml"),
    ),
    (
        "horizontal-pod-autoscaler-controller",
        include_str!("../policies/horizontal-pod-autoscaler-controller.toml"),
    ),
    (
        GARBAGE_COLLECTOR,
        include_str!("../policies/garbage-collector-controller.toml"),
    ),
    (
        "job-controller",
        include_str!("../policies/job-controller.toml"),
    ),
    (
        "legacy-serviceaccount-token-cleaner-controller",
        include_str!("../policies/legacy-serviceaccount-token-cleaner-controller.toml"),
    ),
    (
        "namespace-controller",
        include_str!("../policies/namespace-controller.toml"),
    ),
    (
        NODE_IPAM,
        include_str!("../policies/node-ipam-controller.toml"),
    ),
    (
        "node-lifecycle-controller",
        include_str!("../policies/node-lifecycle-controller.toml"),
    ),
    (
        "persistentvolume-protection-controller",
        include_str!("../policies/persistentvolume-protection-controller.toml"),
    ),
    (
        "persistentvolumeclaim-protection-controller",
        include_str!("../policies/persistentvolumeclaim-protection-controller.toml"),
    ),
    (
        "pod-garbage-collector-controller",
        include_str!("../policies/pod-garbage-collector-controller.toml"),
    ),
    (
        "podcertificaterequest-cleaner-controller",
        include_str!("../policies/podcertificaterequest-cleaner-controller.toml"),
    ),
    (
        "podgroup-protection-controller",
        include_str!("../policies/podgroup-protection-controller.toml"),
    ),
    (
        "replicaset-controller",
        include_str!("../policies/replicaset-controller.toml"),
    ),
    (
        "replicationcontroller-controller",
        include_str!("../policies/replicationcontroller-controller.toml"),
    ),
    (
        "resourceclaim-controller",
        include_str!("../policies/resourceclaim-controller.toml"),
    ),
    (
        "resourcequota-controller",
        include_str!("../policies/resourcequota-controller.toml"),
    ),
    (
        "root-ca-certificate-publisher-controller",
        include_str!("../policies/root-ca-certificate-publisher-controller.toml"),
    ),
    (
        "service-cidr-controller",
        include_str!("../policies/service-cidr-controller.toml"),
    ),
    (
        "serviceaccount-controller",
        include_str!("../policies/serviceaccount-controller.toml"),
    ),
    (
        TOKENS,
        include_str!("../policies/serviceaccount-token-controller.toml"),
    ),
    (
        "storageversion-garbage-collector-controller",
        include_str!("../policies/storageversion-garbage-collector-controller.toml"),
    ),
    (
        "token-cleaner-controller",
        include_str!("../policies/token-cleaner-controller.toml"),
    ),
    (
        "taint-eviction-controller",
        include_str!("../policies/taint-eviction-controller.toml"),
    ),
    (
        "ttl-after-finished-controller",
        include_str!("../policies/ttl-after-finished-controller.toml"),
    ),
    (
        "ttl-controller",
        include_str!("../policies/ttl-controller.toml"),
    ),
    (
        "volumeattributesclass-protection-controller",
        include_str!("../policies/volumeattributesclass-protection-controller.toml"),
    ),
    (
        "statefulset-controller",
        include_str!("../policies/statefulset-controller.toml"),
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
