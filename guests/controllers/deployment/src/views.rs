//! The fields that the controller reads of Deployments, ReplicaSets and pods, and the status that
//! it writes.
//!
//! Upstream: pkg/controller/deployment/util/deployment_util.go: IsRollingUpdate, HasProgressDeadline,
//! HasRevisionHistoryLimit, DeploymentComplete.

use flyball_sdk::IntOrPercent;
use flyball_sdk::condition::Condition;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The value of a limit or deadline that means unlimited.
const UNLIMITED: i64 = i32::MAX as i64;

#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/Deployment")]
pub struct Deployment {
    /// The annotations include the revision, which is written with the status.
    #[view(
        path = "metadata",
        fields("generation", "deletionTimestamp", "annotations")
    )]
    pub meta: Meta,
    /// Selects the ReplicaSets and pods that it may own: a LabelSelector.
    #[view(path = "spec.selector")]
    pub selector: Raw,
    /// The desired number of pods; 1 if absent.
    #[view(path = "spec.replicas")]
    pub replicas: Option<i64>,
    /// The template of its pods.
    #[view(path = "spec.template")]
    pub template: Raw,
    /// Seconds for which a pod must be ready before it counts as available.
    #[view(path = "spec.minReadySeconds")]
    pub min_ready_seconds: i64,
    /// `RollingUpdate` or `Recreate`.
    #[view(path = "spec.strategy.type")]
    pub strategy: String,
    /// How many pods may exist beyond the desired number: a number or a percentage.
    #[view(path = "spec.strategy.rollingUpdate.maxSurge")]
    pub max_surge: IntOrPercent,
    /// How many of the desired pods may be unavailable: a number or a percentage.
    #[view(path = "spec.strategy.rollingUpdate.maxUnavailable")]
    pub max_unavailable: IntOrPercent,
    /// The number of old ReplicaSets to keep.
    #[view(path = "spec.revisionHistoryLimit")]
    pub revision_history_limit: Option<i64>,
    /// Seconds without progress after which a rollout is reported as timed out.
    #[view(path = "spec.progressDeadlineSeconds")]
    pub progress_deadline_seconds: Option<i64>,
    /// Whether the rollout is paused.
    #[view(path = "spec.paused")]
    pub paused: bool,
    /// The last status that was written.
    #[view(path = "status")]
    pub status: Status,
}

/// One revision of a Deployment.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct ReplicaSet {
    #[view(
        path = "metadata",
        fields(
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "labels",
            "annotations",
            "ownerReferences",
        )
    )]
    pub meta: Meta,
    /// The desired number of pods; 1 if absent.
    #[view(path = "spec.replicas")]
    pub desired: Option<i64>,
    /// Seconds for which a pod must be ready before it counts as available.
    #[view(path = "spec.minReadySeconds")]
    pub min_ready_seconds: i64,
    /// The template of its pods.
    #[view(path = "spec.template")]
    pub template: Raw,
    /// The status that the ReplicaSet controller wrote.
    #[view(
        path = "status",
        fields(
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "terminatingReplicas",
            "observedGeneration",
            "conditions",
        )
    )]
    pub status: SetStatus,
}

/// A pod, for Recreate to wait for its end.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[view(path = "status.phase")]
    pub phase: String,
}

/// The live read before a ReplicaSet is adopted.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/Deployment")]
pub struct Identity {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
}

/// The status of a Deployment. It is always written whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The last generation that the controller observed.
    pub observed_generation: i64,
    /// The number of pods.
    pub replicas: i64,
    /// The number of pods with the current template.
    pub updated_replicas: i64,
    /// The number of ready pods.
    pub ready_replicas: i64,
    /// The number of pods that have been ready for `minReadySeconds`.
    pub available_replicas: i64,
    /// The number of desired pods that are not available.
    pub unavailable_replicas: i64,
    /// The number of pods being deleted; `None` if a ReplicaSet does not report it.
    pub terminating_replicas: Option<i64>,
    /// Conditions of other controllers are preserved.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// Number of collisions of a new ReplicaSet's name.
    pub collision_count: Option<i64>,
}

/// The status of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetStatus {
    /// The number of pods.
    pub replicas: i64,
    /// The number of ready pods.
    pub ready_replicas: i64,
    /// The number of available pods.
    pub available_replicas: i64,
    /// The number of pods being deleted, if reported.
    pub terminating_replicas: Option<i64>,
    /// The last generation that its controller observed.
    pub observed_generation: i64,
    /// Only `ReplicaFailure` is used.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

impl Deployment {
    /// The desired number of pods.
    pub fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }

    /// Whether the strategy is RollingUpdate.
    pub fn is_rolling(&self) -> bool {
        self.strategy == "RollingUpdate"
    }

    /// Whether the Deployment's selector is present but empty, so that it would select all pods.
    pub fn selects_everything(&self) -> bool {
        self.selector
            .value()
            .as_object()
            .is_some_and(serde_json::Map::is_empty)
    }

    /// Seconds that a rollout may show no progress; `None` if unlimited.
    pub fn progress_deadline(&self) -> Option<i64> {
        self.progress_deadline_seconds
            .filter(|&seconds| seconds != UNLIMITED)
    }

    /// Number of old ReplicaSets to keep; `None` if unlimited.
    pub fn history_limit(&self) -> Option<usize> {
        let limit = self
            .revision_history_limit
            .filter(|&limit| limit != UNLIMITED)?;
        Some(usize::try_from(limit).unwrap_or(0))
    }

    /// Whether this status reports a complete rollout: exactly the desired pods exist, and all are
    /// updated and available.
    pub fn is_complete(&self, status: &Status) -> bool {
        let wanted = self.replicas();
        [
            status.updated_replicas,
            status.replicas,
            status.available_replicas,
        ] == [wanted; 3]
            && status.observed_generation >= self.meta.generation
    }
}

impl ReplicaSet {
    /// The desired number of pods.
    pub fn replicas(&self) -> i64 {
        self.desired.unwrap_or(1)
    }

    /// Number of desired pods that are not available.
    pub fn unavailable(&self) -> i64 {
        self.replicas() - self.status.available_replicas
    }

    /// Whether the ReplicaSet wants any pods.
    pub fn is_active(&self) -> bool {
        self.replicas() > 0
    }
}
