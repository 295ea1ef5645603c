//! The fields that the controller reads.

use std::collections::BTreeMap;

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::amounts::{Amounts, ResourceList};

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ResourceQuota")]
pub struct Quota {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    /// The limits.
    #[view(path = "spec.hard")]
    pub hard: Amounts,
    /// Scopes of the objects that it counts.
    #[view(path = "spec.scopes")]
    pub scopes: Vec<String>,
    /// Further scopes, each with an operator and values.
    #[view(path = "spec.scopeSelector.matchExpressions")]
    pub selectors: Vec<Requirement>,
    #[view(path = "status")]
    pub status: Status,
}

/// A quota, by its name only.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ResourceQuota")]
pub struct Presence {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
}

/// The status of a quota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The limits that admission enforces.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub hard: Amounts,
    /// The usage of the limits.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub used: Amounts,
}

/// A scope with an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requirement {
    /// Such as `PriorityClass`.
    pub scope_name: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(
        path = "metadata",
        fields("deletionTimestamp", "deletionGracePeriodSeconds")
    )]
    pub meta: Meta,
    #[view(path = "spec.activeDeadlineSeconds")]
    pub active_deadline_seconds: Option<i64>,
    #[view(path = "spec.priorityClassName")]
    pub priority_class: String,
    #[view(
        path = "spec.affinity",
        fields(
            "podAffinity.requiredDuringSchedulingIgnoredDuringExecution[*].namespaces",
            "podAffinity.requiredDuringSchedulingIgnoredDuringExecution[*].namespaceSelector",
            "podAffinity.preferredDuringSchedulingIgnoredDuringExecution[*].podAffinityTerm.namespaces",
            "podAffinity.preferredDuringSchedulingIgnoredDuringExecution[*].podAffinityTerm.namespaceSelector",
            "podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[*].namespaces",
            "podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[*].namespaceSelector",
            "podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[*].podAffinityTerm.namespaces",
            "podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[*].podAffinityTerm.namespaceSelector",
        )
    )]
    pub affinity: Affinity,
    #[view(
        path = "spec.containers",
        fields("[*].name", "[*].resources.requests", "[*].resources.limits")
    )]
    pub containers: Vec<Container>,
    #[view(
        path = "spec.initContainers",
        fields(
            "[*].name",
            "[*].resources.requests",
            "[*].resources.limits",
            "[*].restartPolicy"
        )
    )]
    pub init_containers: Vec<Container>,
    /// The resources that the pod's sandbox needs in addition to its containers.
    #[view(path = "spec.overhead")]
    pub overhead: ResourceList,
    /// The resources of the pod as a whole.
    #[view(path = "spec.resources", fields("requests", "limits"))]
    pub resources: Resources,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.qosClass")]
    pub qos_class: String,
    /// Why a resize is pending: `Deferred` or `Infeasible`.
    #[view(path = "status.conditions[type=PodResizePending].reason")]
    pub resize_pending: Option<String>,
    #[view(
        path = "status.containerStatuses",
        fields("[*].name", "[*].resources", "[*].allocatedResources")
    )]
    pub container_statuses: Vec<ContainerStatus>,
    #[view(
        path = "status.initContainerStatuses",
        fields("[*].name", "[*].resources", "[*].allocatedResources")
    )]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The ResourceClaim that was created for the pod's extended resources.
    #[view(path = "status.extendedResourceClaimStatus.resourceClaimName")]
    pub extended_resource_claim: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub resources: Resources,
    /// `Always` for a sidecar.
    pub restart_policy: Option<String>,
}

/// Requests, limits and the claims of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    #[serde(deserialize_with = "null_is_default")]
    pub requests: ResourceList,
    #[serde(deserialize_with = "null_is_default")]
    pub limits: ResourceList,
    #[serde(deserialize_with = "null_is_default")]
    pub claims: Vec<ContainerClaim>,
}

/// A ResourceClaim that a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ContainerClaim {
    pub name: String,
    pub request: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    /// The resources that the container runs with.
    pub resources: Option<Resources>,
    /// The resources that the node has reserved for the container.
    #[serde(deserialize_with = "null_is_default")]
    pub allocated_resources: ResourceList,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    #[serde(deserialize_with = "null_is_default")]
    pub pod_affinity: PodAffinity,
    #[serde(deserialize_with = "null_is_default")]
    pub pod_anti_affinity: PodAffinity,
}

/// The affinity, or anti-affinity, to other pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_is_default"
    )]
    pub required: Vec<AffinityTerm>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_is_default"
    )]
    pub preferred: Vec<WeightedTerm>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedTerm {
    pub pod_affinity_term: AffinityTerm,
}

/// The namespaces that an affinity extends to. An empty selector selects all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityTerm {
    #[serde(deserialize_with = "null_is_default")]
    pub namespaces: Vec<String>,
    pub namespace_selector: Option<IgnoredAny>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Service")]
pub struct Service {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    #[view(path = "spec.type")]
    pub service_type: String,
    #[view(path = "spec.ports", fields("[*].port", "[*].nodePort"))]
    pub ports: Vec<Port>,
    #[view(path = "spec.allocateLoadBalancerNodePorts")]
    pub allocates_node_ports: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// 0 if it has none.
    pub node_port: i32,
}

/// A PersistentVolumeClaim.
#[derive(View, Clone, Debug, Default, PartialEq)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub struct VolumeClaim {
    #[view(
        path = "metadata",
        fields("annotations['volume.beta.kubernetes.io/storage-class']")
    )]
    pub meta: Meta,
    #[view(path = "spec.storageClassName")]
    pub storage_class: String,
    #[view(path = "spec.resources.requests.storage")]
    pub requested: Option<Quantity>,
    /// The storage that an expansion has reserved.
    #[view(path = "status.allocatedResources.storage")]
    pub allocated: Option<Quantity>,
    #[view(path = "spec.volumeAttributesClassName")]
    pub attributes_class: String,
    #[view(path = "status.currentVolumeAttributesClassName")]
    pub current_attributes_class: String,
    #[view(path = "status.modifyVolumeStatus.targetVolumeAttributesClassName")]
    pub target_attributes_class: String,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/ResourceClaim")]
pub struct ResourceClaim {
    #[view(
        path = "metadata",
        fields(
            "annotations['resource.kubernetes.io/extended-resource-claim']",
            "creationTimestamp",
            "ownerReferences",
        )
    )]
    pub meta: Meta,
    #[view(
        path = "spec.devices.requests",
        fields(
            "[*].exactly.deviceClassName",
            "[*].exactly.allocationMode",
            "[*].exactly.count",
            "[*].firstAvailable[*].deviceClassName",
            "[*].firstAvailable[*].allocationMode",
            "[*].firstAvailable[*].count",
        )
    )]
    pub requests: Vec<DeviceRequest>,
}

/// A request of a ResourceClaim: for these devices, or for the first available of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    pub exactly: Option<Devices>,
    #[serde(deserialize_with = "null_is_default")]
    pub first_available: Vec<Devices>,
}

/// Devices of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Devices {
    pub device_class_name: String,
    /// `ExactCount` or `All`.
    pub allocation_mode: String,
    pub count: i64,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "resource.k8s.io/v1/DeviceClass")]
pub struct DeviceClass {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    /// The extended resource by which pods may request its devices.
    #[view(path = "spec.extendedResourceName")]
    pub extended_resource: String,
}
