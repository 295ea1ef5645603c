//! The fields that the controller reads of Deployments, ReplicaSets and pods, and the status that it writes.

use flyball_sdk::IntOrPercent;
use flyball_sdk::condition::Condition;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// A number that stands for «no limit» and «no deadline».
const UNLIMITED: i64 = i32::MAX as i64;

view! {
    /// What rolls.
    pub struct Deployment: "apps/v1/Deployment" {
        /// Who it is. The annotations include the revision, which is written with the status.
        pub meta: Meta = "metadata" [".generation", ".deletionTimestamp", ".annotations"],
        /// Which ReplicaSets and pods are its own: a LabelSelector.
        pub selector: Raw = "spec.selector",
        /// How many pods it asks for; none means 1.
        pub replicas: Option<i64> = "spec.replicas",
        /// What its pods are made from.
        pub template: Raw = "spec.template",
        /// For how many seconds a pod must be ready to be available.
        pub min_ready_seconds: i64 = "spec.minReadySeconds",
        /// `RollingUpdate` or `Recreate`.
        pub strategy: String = "spec.strategy.type",
        /// How many pods may be there beyond those asked for: a number or a percentage.
        pub max_surge: IntOrPercent = "spec.strategy.rollingUpdate.maxSurge",
        /// How many of the pods asked for may be missing: a number or a percentage.
        pub max_unavailable: IntOrPercent = "spec.strategy.rollingUpdate.maxUnavailable",
        /// How many old ReplicaSets are kept.
        pub revision_history_limit: Option<i64> = "spec.revisionHistoryLimit",
        /// For how many seconds a rollout may show no progress.
        pub progress_deadline_seconds: Option<i64> = "spec.progressDeadlineSeconds",
        /// Whether nothing rolls.
        pub paused: bool = "spec.paused",
        /// What it was last said to be.
        pub status: Status = "status",
    }

    /// One revision of a Deployment.
    pub struct ReplicaSet: "apps/v1/ReplicaSet" {
        /// Who it is.
        pub meta: Meta = "metadata"
            [".generation", ".creationTimestamp", ".deletionTimestamp", ".labels", ".annotations", ".ownerReferences"],
        /// How many pods it asks for; none means 1.
        pub asked: Option<i64> = "spec.replicas",
        /// For how many seconds a pod must be ready to be available.
        pub min_ready_seconds: i64 = "spec.minReadySeconds",
        /// What its pods are made from.
        pub template: Raw = "spec.template",
        /// How its pods are.
        pub status: SetStatus = "status"
            [".replicas", ".readyReplicas", ".availableReplicas", ".terminatingReplicas", ".observedGeneration", ".conditions"],
    }

    /// A pod, for whoever waits until it is gone.
    pub struct Pod: "v1/Pod" {
        /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        pub phase: String = "status.phase",
    }

    /// What is asked of the API server before a ReplicaSet is adopted.
    pub struct Identity: "apps/v1/Deployment" {
        /// Who it is now.
        pub meta: Meta = "metadata" [".deletionTimestamp"],
    }
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
