//! The fields that the controller reads of autoscalers and pods, and the status that it writes.
//!
//! Upstream: pkg/controller/podautoscaler/horizontal.go: hasObjectOrExternalMetrics.

use std::collections::BTreeMap;

use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The condition that tells whether the target's scale can be read and written.
pub const ABLE_TO_SCALE: &str = "AbleToScale";
/// The condition that tells whether the metrics yield a number of replicas.
pub const SCALING_ACTIVE: &str = "ScalingActive";
/// The condition that tells whether a limit changes the number of replicas that the metrics yield.
pub const SCALING_LIMITED: &str = "ScalingLimited";
/// The condition that tells whether the controller itself has scaled the target to zero.
pub const SCALED_TO_ZERO: &str = "ScaledToZero";

/// A HorizontalPodAutoscaler.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "autoscaling/v2/HorizontalPodAutoscaler")]
pub struct Autoscaler {
    #[view(path = "metadata", fields("generation"))]
    pub meta: Meta,
    #[view(path = "spec")]
    pub spec: Spec,
    #[view(path = "status")]
    pub status: Status,
}

/// An autoscaler of the namespace, to see whether it exists.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "autoscaling/v2/HorizontalPodAutoscaler")]
pub struct Named {
    #[view(path = "metadata.name")]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    #[serde(rename = "scaleTargetRef")]
    pub target: ObjectName,
    pub min_replicas: Option<i32>,
    pub max_replicas: i32,
    #[serde(deserialize_with = "null_is_default")]
    pub metrics: Vec<MetricSpec>,
    pub behavior: Option<Behavior>,
}

impl Spec {
    /// The least number of replicas, or the API's default.
    pub fn min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }

    /// Whether one of the metrics is independent of pods, so that it exists while there are none.
    pub fn has_metrics_without_pods(&self) -> bool {
        let mut metrics = self.metrics.iter();
        metrics.any(|metric| matches!(metric.source.as_str(), "Object" | "External"))
    }
}

/// An object of any kind in the namespace of the autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectName {
    pub kind: String,
    pub name: String,
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub api_version: String,
}

/// A metric to scale by. One of the fields that `source` names is set.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricSpec {
    /// `Resource`, `ContainerResource`, `Pods`, `Object` or `External`.
    #[serde(rename = "type")]
    pub source: String,
    pub resource: Option<ResourceSource>,
    pub container_resource: Option<ResourceSource>,
    pub pods: Option<MetricSource>,
    pub object: Option<MetricSource>,
    pub external: Option<MetricSource>,
}

/// A resource that pods or containers of this name request and use.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceSource {
    /// Such as `cpu`.
    pub name: String,
    /// Empty for all containers of a pod.
    pub container: String,
    pub target: Target,
}

/// A metric of the pods, of an object or of something outside of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricSource {
    pub described_object: ObjectName,
    pub metric: Identifier,
    pub target: Target,
}

/// The name of a metric, and a LabelSelector of its series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identifier {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Target {
    /// `Value`, `AverageValue` or `Utilization`.
    #[serde(rename = "type")]
    pub target_type: String,
    pub value: Option<Quantity>,
    /// The target value for each pod.
    pub average_value: Option<Quantity>,
    /// The target in percent of the pods' requests.
    pub average_utilization: Option<i32>,
}

/// How fast the number of replicas may change.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Behavior {
    #[serde(deserialize_with = "null_is_default")]
    pub scale_up: Rules,
    #[serde(deserialize_with = "null_is_default")]
    pub scale_down: Rules,
}

/// The rules of one direction. The API server sets their defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    pub stabilization_window_seconds: Option<i32>,
    /// `Max`, `Min` or `Disabled`; null means `Max`.
    pub select_policy: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub policies: Vec<Policy>,
    pub tolerance: Option<Quantity>,
}

/// A change that is allowed within a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// `Pods` or `Percent`.
    #[serde(rename = "type")]
    pub policy_type: String,
    pub value: i32,
    pub period_seconds: i32,
}

/// The status of an autoscaler. It is always written whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    pub current_replicas: i32,
    pub desired_replicas: i32,
    #[serde(deserialize_with = "null_is_default")]
    pub current_metrics: Vec<MetricStatus>,
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

/// The last value of a metric. Without a type if the value could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricStatus {
    #[serde(rename = "type")]
    pub source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<MetricValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<MetricValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ResourceValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<MetricValue>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricValue {
    pub metric: Identifier,
    pub current: Current,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub described_object: Option<ObjectName>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceValue {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,
    pub current: Current,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Current {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

/// Quantities by resource name.
pub type Resources = BTreeMap<String, Quantity>;

/// A pod. The view has no `fields` of metadata: it is listed as rows.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.labels")]
    pub labels: LabelSet,
    #[view(path = "metadata.deletionTimestamp")]
    pub deleted: Option<Time>,
    #[view(path = "spec.containers", fields("[*].name", "[*].resources.requests"))]
    pub containers: Vec<Container>,
    #[view(
        path = "spec.initContainers",
        fields("[*].name", "[*].resources.requests", "[*].restartPolicy")
    )]
    pub init_containers: Vec<Container>,
    /// The requests of the pod as a whole.
    #[view(path = "spec.resources.requests")]
    pub requests: Resources,
    #[view(path = "spec.overhead")]
    pub overhead: Resources,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.startTime")]
    pub started: Option<Time>,
    #[view(path = "status.conditions[type=Ready]")]
    pub ready: Option<Condition>,
}

impl Pod {
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(Condition::is_true)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub resources: Requests,
    /// `Always` for a sidecar.
    pub restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Requests {
    #[serde(deserialize_with = "null_is_default")]
    pub requests: Resources,
}
