//! The plurals of kinds, as RBAC rules name them, and whether kinds are namespaced. Both are known for built-in kinds.
//! For other kinds the plural is guessed, because the tools don't connect to a cluster.

use std::any::TypeId;

use flyball_types::{Kind, usual_plural};
use k8s_openapi::{ClusterResourceScope, Resource};

/// The plural and the scope of a kind in any version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plural {
    /// The plural, as in `deployments`.
    pub(super) resource: String,
    /// Whether the kind is namespaced; none if the kind is not built-in. The plural is then a guess.
    pub(super) namespaced: Option<bool>,
}

/// Returns the plural of a kind.
pub(super) fn of(kind: &Kind) -> Plural {
    let known = BUILT_IN
        .iter()
        .map(|entry| entry())
        .find(|known| known.group == kind.group && known.kind == kind.kind);
    match known {
        Some(known) => Plural {
            resource: known.plural.into(),
            namespaced: Some(known.namespaced),
        },
        None => Plural {
            resource: usual_plural(&kind.kind),
            namespaced: None,
        },
    }
}

/// The built-in kinds, each in the newest version that this program knows, with their plurals and whether they are
/// namespaced.
pub(super) fn built_in() -> impl Iterator<Item = (Kind, &'static str, bool)> {
    let known = BUILT_IN.iter().map(|entry| entry());
    known.map(|known| {
        let kind = Kind::new(known.group, known.version, known.kind);
        (kind, known.plural, known.namespaced)
    })
}

struct Known {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
}

fn known<K: Resource<Scope: 'static>>() -> Known {
    let namespaced = TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>();
    Known {
        group: K::GROUP,
        version: K::VERSION,
        kind: K::KIND,
        plural: K::URL_PATH_SEGMENT,
        namespaced,
    }
}

/// Lists kinds by their modules in `k8s_openapi`.
macro_rules! kinds {
    ($($module:path => [$($kind:ident),* $(,)?],)*) => {
        &[$($({ use $module as module; known::<module::$kind> }),*),*]
    };
}

const BUILT_IN: &[fn() -> Known] = kinds![
    k8s_openapi::api::core::v1 => [
        Binding, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
    ],
    k8s_openapi::api::apps::v1 => [ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet],
    k8s_openapi::api::autoscaling::v2 => [HorizontalPodAutoscaler],
    k8s_openapi::api::batch::v1 => [CronJob, Job],
    k8s_openapi::api::certificates::v1 => [CertificateSigningRequest],
    k8s_openapi::api::coordination::v1 => [Lease],
    k8s_openapi::api::discovery::v1 => [EndpointSlice],
    k8s_openapi::api::events::v1 => [Event],
    k8s_openapi::api::flowcontrol::v1 => [FlowSchema, PriorityLevelConfiguration],
    k8s_openapi::api::networking::v1 => [IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR],
    k8s_openapi::api::node::v1 => [RuntimeClass],
    k8s_openapi::api::policy::v1 => [PodDisruptionBudget],
    k8s_openapi::api::rbac::v1 => [ClusterRole, ClusterRoleBinding, Role, RoleBinding],
    k8s_openapi::api::resource::v1 => [DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice],
    k8s_openapi::api::scheduling::v1 => [PriorityClass],
    k8s_openapi::api::storage::v1 => [
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
    ],
    k8s_openapi::api::admissionregistration::v1 => [
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        ValidatingWebhookConfiguration,
    ],
    k8s_openapi::api::authentication::v1 => [SelfSubjectReview, TokenReview],
    k8s_openapi::api::authorization::v1 => [
        LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
    ],
    k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 => [CustomResourceDefinition],
    k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 => [APIService],
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of_text(kind: &str) -> (String, Option<bool>) {
        let Plural {
            resource,
            namespaced,
        } = of(&kind.parse().expect("a kind"));
        (resource, namespaced)
    }

    #[test]
    fn built_in_kinds_are_known_in_every_version() {
        for (kind, plural, namespaced) in [
            ("v1/Endpoints", "endpoints", true),
            (
                "networking.k8s.io/v1/NetworkPolicy",
                "networkpolicies",
                true,
            ),
            ("networking.k8s.io/v1/Ingress", "ingresses", true),
            ("v1/Namespace", "namespaces", false),
            (
                "autoscaling/v1/HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
                true,
            ),
            (
                "apiextensions.k8s.io/v1/CustomResourceDefinition",
                "customresourcedefinitions",
                false,
            ),
            ("events.k8s.io/v1/Event", "events", true),
        ] {
            assert_eq!(of_text(kind), (plural.into(), Some(namespaced)), "{kind}");
        }
    }

    #[test]
    fn the_plural_of_another_kind_is_a_usual_plural() {
        for (kind, plural) in [
            ("Widget", "widgets"),
            ("Policy", "policies"),
            ("Gateway", "gateways"),
            ("Mesh", "meshes"),
            ("Class", "classes"),
        ] {
            assert_eq!(
                of_text(&format!("example.com/v1/{kind}")),
                (plural.into(), None)
            );
        }
    }

    #[test]
    fn the_guess_is_right_for_all_built_in_kinds_except_one() {
        let wrong: Vec<&str> = BUILT_IN
            .iter()
            .map(|entry| entry())
            .filter(|known| usual_plural(known.kind) != known.plural)
            .map(|k| k.kind)
            .collect();
        assert_eq!(wrong, ["Endpoints"]);
    }
}
