//! The fields that the controller reads of Deployments, ReplicaSets and pods, and the status that it writes.

use flyball_sdk::IntOrPercent;
use flyball_sdk::condition::Condition;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The value by which a limit or a deadline says that there is none.
const UNLIMITED: i64 = i32::MAX as i64;

/// What rolls.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/Deployment")]
pub struct Deployment {
    /// Who it is. The annotations include the revision, which is written with the status.
    #[view(
        path = "metadata",
        fields("generation", "deletionTimestamp", "annotations")
    )]
    pub meta: Meta,
    /// Which ReplicaSets and pods are its own: a LabelSelector.
    #[view(path = "spec.selector")]
    pub selector: Raw,
    /// How many pods it asks for; none means 1.
    #[view(path = "spec.replicas")]
    pub replicas: Option<i64>,
    /// What its pods are made from.
    #[view(path = "spec.template")]
    pub template: Raw,
    /// For how many seconds a pod must be ready to be available.
    #[view(path = "spec.minReadySeconds")]
    pub min_ready_seconds: i64,
    /// `RollingUpdate` or `Recreate`.
    #[view(path = "spec.strategy.type")]
    pub strategy: String,
    /// How many pods may be there beyond those asked for: a number or a percentage.
    #[view(path = "spec.strategy.rollingUpdate.maxSurge")]
    pub max_surge: IntOrPercent,
    /// How many of the pods asked for may be missing: a number or a percentage.
    #[view(path = "spec.strategy.rollingUpdate.maxUnavailable")]
    pub max_unavailable: IntOrPercent,
    /// How many old ReplicaSets are kept.
    #[view(path = "spec.revisionHistoryLimit")]
    pub revision_history_limit: Option<i64>,
    /// For how many seconds a rollout may show no progress.
    #[view(path = "spec.progressDeadlineSeconds")]
    pub progress_deadline_seconds: Option<i64>,
    /// Whether nothing rolls.
    #[view(path = "spec.paused")]
    pub paused: bool,
    /// What it was last said to be.
    #[view(path = "status")]
    pub status: Status,
}

/// One revision of a Deployment.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct ReplicaSet {
    /// Who it is.
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
    /// How many pods it asks for; none means 1.
    #[view(path = "spec.replicas")]
    pub asked: Option<i64>,
    /// For how many seconds a pod must be ready to be available.
    #[view(path = "spec.minReadySeconds")]
    pub min_ready_seconds: i64,
    /// What its pods are made from.
    #[view(path = "spec.template")]
    pub template: Raw,
    /// How its pods are.
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

/// A pod, for whoever waits until it is gone.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[view(path = "status.phase")]
    pub phase: String,
}

/// What is asked of the API server before a ReplicaSet is adopted.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/Deployment")]
pub struct Identity {
    /// Who it is now.
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
}

/// The status of a Deployment, whole: as it is read and as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation that these numbers are for.
    pub observed_generation: i64,
    /// How many pods there are.
    pub replicas: i64,
    /// How many of them have the present template.
    pub updated_replicas: i64,
    /// How many of them are ready.
    pub ready_replicas: i64,
    /// How many of them have been ready for `minReadySeconds`.
    pub available_replicas: i64,
    /// How many pods are asked for of the ReplicaSets and not available.
    pub unavailable_replicas: i64,
    /// How many pods are being deleted; none where a ReplicaSet does not say.
    pub terminating_replicas: Option<i64>,
    /// How it goes. Others than ours are kept as they are.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// How often the name of a new ReplicaSet was taken.
    pub collision_count: Option<i64>,
}

/// How the pods of a ReplicaSet are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetStatus {
    /// How many there are.
    pub replicas: i64,
    /// How many are ready.
    pub ready_replicas: i64,
    /// How many are available.
    pub available_replicas: i64,
    /// How many are being deleted, where it says so.
    pub terminating_replicas: Option<i64>,
    /// The generation that these numbers are for.
    pub observed_generation: i64,
    /// Its conditions: `ReplicaFailure` is of interest.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

impl Deployment {
    /// How many pods it asks for.
    pub fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }

    /// Whether it replaces its pods step by step.
    pub fn is_rolling(&self) -> bool {
        self.strategy == "RollingUpdate"
    }

    /// Whether its selector is there but empty, so that it would take all pods.
    pub fn selects_everything(&self) -> bool {
        self.selector
            .value()
            .as_object()
            .is_some_and(serde_json::Map::is_empty)
    }

    /// How long a rollout may show no progress, in seconds; none if for ever.
    pub fn progress_deadline(&self) -> Option<i64> {
        self.progress_deadline_seconds
            .filter(|&seconds| seconds != UNLIMITED)
    }

    /// How many old ReplicaSets are kept; none if all.
    pub fn history_limit(&self) -> Option<usize> {
        let limit = self
            .revision_history_limit
            .filter(|&limit| limit != UNLIMITED)?;
        Some(usize::try_from(limit).unwrap_or(0))
    }

    /// Whether this status says that all that it asks for is there, up to date and available, and nothing else.
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
    /// How many pods it asks for.
    pub fn replicas(&self) -> i64 {
        self.asked.unwrap_or(1)
    }

    /// How many of the pods that it asks for are not available.
    pub fn unavailable(&self) -> i64 {
        self.replicas() - self.status.available_replicas
    }

    /// Whether it asks for any pods.
    pub fn is_active(&self) -> bool {
        self.replicas() > 0
    }
}
