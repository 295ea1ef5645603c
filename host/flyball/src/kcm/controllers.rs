//! The controllers of kube-controller-manager, sorted by name.
//!
//! `testdata/kcm-1.36-controllers.txt` is generated from kube-controller-manager's own code.

use crate::builtins::TRUST_BUNDLES;

/// A controller of kube-controller-manager.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The canonical name.
    pub(crate) name: &'static str,
    /// Older names, which stay valid.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) start: Start,
}

/// Whether `*` in `--controllers` enables a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// `*` enables it.
    Default,
    /// It runs only if it is named.
    Disabled,
    /// `*` enables it only together with a feature gate that is off by default.
    Gated,
    /// It never runs: it moved to the cloud-controller-manager. Its name is still accepted.
    Cloud,
}

/// Returns the canonical name of a controller, given its name or an alias.
pub(crate) fn canonical(name: &str) -> Option<&'static str> {
    find(name).map(|known| known.name)
}

/// Returns the controller with this name or alias.
pub(crate) fn find(name: &str) -> Option<&'static Known> {
    KNOWN
        .iter()
        .find(|known| known.name == name || known.aliases.contains(&name))
}

/// The feature gates of controllers that Flyball has, if a gate of them can be off. A controller runs only if all of its gates
/// are on. It is [`Start::Gated`] if one of them is off by default.
pub(crate) const GATES: &[(&str, &[&str])] = &[
    (TRUST_BUNDLES, &["ClusterTrustBundle"]),
    (
        "device-taint-eviction-controller",
        &["DynamicResourceAllocation", "DRADeviceTaints"],
    ),
    (
        "podcertificaterequest-cleaner-controller",
        &["PodCertificateRequest"],
    ),
    ("podgroup-protection-controller", &["GenericWorkload"]),
    ("resourceclaim-controller", &["DynamicResourceAllocation"]),
    ("service-cidr-controller", &["MultiCIDRServiceAllocator"]),
    (
        "storageversion-garbage-collector-controller",
        &["APIServerIdentity", "StorageVersionAPI"],
    ),
    (
        "volumeattributesclass-protection-controller",
        &["VolumeAttributesClass"],
    ),
];

pub(crate) const KNOWN: &[Known] = &[
    known(
        "bootstrap-signer-controller",
        &["bootstrapsigner"],
        Start::Disabled,
    ),
    known(
        "certificatesigningrequest-approving-controller",
        &["csrapproving"],
        Start::Default,
    ),
    known(
        "certificatesigningrequest-cleaner-controller",
        &["csrcleaner"],
        Start::Default,
    ),
    known(
        "certificatesigningrequest-signing-controller",
        &["csrsigning"],
        Start::Default,
    ),
    known(
        "cloud-node-lifecycle-controller",
        &["cloud-node-lifecycle"],
        Start::Cloud,
    ),
    known(
        "clusterrole-aggregation-controller",
        &["clusterrole-aggregation"],
        Start::Default,
    ),
    known("cronjob-controller", &["cronjob"], Start::Default),
    known("daemonset-controller", &["daemonset"], Start::Default),
    known("deployment-controller", &["deployment"], Start::Default),
    known("device-taint-eviction-controller", &[], Start::Default),
    known("disruption-controller", &["disruption"], Start::Default),
    known("endpoints-controller", &["endpoint"], Start::Default),
    known(
        "endpointslice-controller",
        &["endpointslice"],
        Start::Default,
    ),
    known(
        "endpointslice-mirroring-controller",
        &["endpointslicemirroring"],
        Start::Default,
    ),
    known(
        "ephemeral-volume-controller",
        &["ephemeral-volume"],
        Start::Default,
    ),
    known(
        "garbage-collector-controller",
        &["garbagecollector"],
        Start::Default,
    ),
    known(
        "horizontal-pod-autoscaler-controller",
        &["horizontalpodautoscaling"],
        Start::Default,
    ),
    known("job-controller", &["job"], Start::Default),
    known(
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        &[],
        Start::Gated,
    ),
    known(
        "legacy-serviceaccount-token-cleaner-controller",
        &["legacy-service-account-token-cleaner"],
        Start::Default,
    ),
    known("namespace-controller", &["namespace"], Start::Default),
    known("node-ipam-controller", &["nodeipam"], Start::Default),
    known(
        "node-lifecycle-controller",
        &["nodelifecycle"],
        Start::Default,
    ),
    known("node-route-controller", &["route"], Start::Cloud),
    known(
        "persistentvolume-attach-detach-controller",
        &["attachdetach"],
        Start::Default,
    ),
    known(
        "persistentvolume-binder-controller",
        &["persistentvolume-binder"],
        Start::Default,
    ),
    known(
        "persistentvolume-expander-controller",
        &["persistentvolume-expander"],
        Start::Default,
    ),
    known(
        "persistentvolume-protection-controller",
        &["pv-protection"],
        Start::Default,
    ),
    known(
        "persistentvolumeclaim-protection-controller",
        &["pvc-protection"],
        Start::Default,
    ),
    known(
        "pod-garbage-collector-controller",
        &["podgc"],
        Start::Default,
    ),
    known(
        "podcertificaterequest-cleaner-controller",
        &[],
        Start::Gated,
    ),
    known("podgroup-protection-controller", &[], Start::Gated),
    known("replicaset-controller", &["replicaset"], Start::Default),
    known(
        "replicationcontroller-controller",
        &["replicationcontroller"],
        Start::Default,
    ),
    known(
        "resourceclaim-controller",
        &["resource-claim-controller"],
        Start::Default,
    ),
    known("resourcepoolstatusrequest-controller", &[], Start::Gated),
    known(
        "resourcequota-controller",
        &["resourcequota"],
        Start::Default,
    ),
    known(
        "root-ca-certificate-publisher-controller",
        &["root-ca-cert-publisher"],
        Start::Default,
    ),
    known("selinux-warning-controller", &[], Start::Disabled),
    known("service-cidr-controller", &[], Start::Default),
    known("service-lb-controller", &["service"], Start::Cloud),
    known(
        "serviceaccount-controller",
        &["serviceaccount"],
        Start::Default,
    ),
    known(
        "serviceaccount-token-controller",
        &["serviceaccount-token"],
        Start::Default,
    ),
    known("statefulset-controller", &["statefulset"], Start::Default),
    known(
        "storage-version-migrator-controller",
        &["svm"],
        Start::Default,
    ),
    known(
        "storageversion-garbage-collector-controller",
        &["storage-version-gc"],
        Start::Gated,
    ),
    known("taint-eviction-controller", &[], Start::Default),
    known(
        "token-cleaner-controller",
        &["tokencleaner"],
        Start::Disabled,
    ),
    known(
        "ttl-after-finished-controller",
        &["ttl-after-finished"],
        Start::Default,
    ),
    known("ttl-controller", &["ttl"], Start::Default),
    known(
        "validatingadmissionpolicy-status-controller",
        &[],
        Start::Default,
    ),
    known(
        "volumeattributesclass-protection-controller",
        &[],
        Start::Default,
    ),
];

const fn known(name: &'static str, aliases: &'static [&'static str], start: Start) -> Known {
    Known {
        name,
        aliases,
        start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kcm::feature_gates::FeatureGates;
    use crate::kcm::versions::Versions;

    const GOLDEN: &str = include_str!("../../testdata/kcm-1.36-controllers.txt");

    #[test]
    fn the_table_equals_kube_controller_managers() {
        let lines = GOLDEN.lines().filter(|line| !line.starts_with('#'));
        let golden: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
        assert_eq!(golden.len(), KNOWN.len());
        for (golden, known) in golden.iter().zip(KNOWN) {
            let [name, aliases, disabled, cloud, gates] = golden[..] else {
                panic!("{golden:?} does not have five columns")
            };
            assert_eq!(
                (name, aliases),
                (known.name, known.aliases.join(",").as_str())
            );
            assert_eq!(disabled == "true", known.start == Start::Disabled, "{name}");
            assert_eq!(cloud == "true", known.start == Start::Cloud, "{name}");
            assert!(known.start != Start::Gated || !gates.is_empty(), "{name}");
        }
    }

    #[test]
    fn the_gates_equal_kube_controller_managers() {
        for &(name, gates) in GATES {
            let mut lines = GOLDEN.lines().map(|line| line.split('\t'));
            let mut line = lines
                .find(|line| line.clone().next() == Some(name))
                .expect("it is in the table");
            assert_eq!(line.next_back(), Some(gates.join(",").as_str()));
            let defaults = FeatureGates::new([], Versions::default()).expect("the defaults fit");
            let is_on = gates.iter().all(|gate| defaults.is_enabled(gate));
            let start = if is_on { Start::Default } else { Start::Gated };
            assert_eq!(find(name).map(|known| known.start), Some(start), "{name}");
        }
    }

    #[test]
    fn a_controller_is_found_by_its_name_and_its_aliases() {
        assert_eq!(canonical("podgc"), Some("pod-garbage-collector-controller"));
        assert_eq!(
            canonical("pod-garbage-collector-controller"),
            Some("pod-garbage-collector-controller")
        );
        assert_eq!(canonical("pods"), None);
    }
}
