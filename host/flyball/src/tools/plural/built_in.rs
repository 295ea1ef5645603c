//! The built-in kinds with their plurals, and whether they are namespaced.

use std::any::TypeId;

use flyball_types::Kind;
use k8s_openapi::{ClusterResourceScope, Resource};

/// A built-in kind, in the newest version that this program knows.
pub(super) struct Known {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) namespaced: bool,
}

/// Returns all of them.
pub(super) fn all() -> impl Iterator<Item = Known> {
    BUILT_IN.iter().map(|entry| entry())
}

/// Finds a kind, in whatever version it is asked for.
pub(super) fn find(kind: &Kind) -> Option<Known> {
    all().find(|known| known.group == kind.group && known.kind == kind.kind)
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
