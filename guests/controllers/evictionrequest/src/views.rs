//! The fields that the controller reads, and the parts of statuses that it reads and applies.

use flyball_pods::has_ended;
use flyball_sdk::condition;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The index of Evictions and of EvictionRequests by the UID of their target.
pub const BY_TARGET: &str = "target";
/// The intent of a requester that wants the target to be evicted.
pub const EVICTION: &str = "Eviction";
/// The condition of an eviction that has ended without success.
pub const FAILED: &str = "Failed";
/// The condition of an eviction whose target is gone.
pub const EVICTED: &str = "TargetEvicted";

/// The process of evicting one target. It has one Eviction at a time.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "lifecycle.k8s.io/v1alpha1/Eviction")]
pub struct Eviction {
    #[view(
        path = "metadata",
        fields("creationTimestamp", "generation", "labels", "ownerReferences")
    )]
    pub meta: Meta,
    #[view(path = "spec.target.pod")]
    pub pod: Option<PodReference>,
    #[view(path = "status.observedGeneration")]
    pub observed_generation: Option<i64>,
    #[view(path = "status.conditions")]
    pub conditions: Vec<Condition>,
    #[view(path = "status.requesters")]
    pub requesters: Vec<Requester>,
    /// The responders in the order in which the API server returns them.
    #[view(path = "status.targetResponders")]
    pub target_responders: Vec<TargetResponder>,
    /// What the responders have reported.
    #[view(path = "status.responders")]
    pub reports: Vec<Report>,
}

impl Eviction {
    /// Whether the target was evicted.
    pub fn has_succeeded(&self) -> bool {
        is_true(&self.conditions, EVICTED)
    }

    pub fn has_failed(&self) -> bool {
        is_true(&self.conditions, FAILED)
    }

    /// Whether nothing more is done about it.
    pub fn has_completed(&self) -> bool {
        self.has_succeeded() || self.has_failed()
    }

    /// The report of a responder.
    pub fn report(&self, responder: &str) -> Option<&Report> {
        { self.reports.iter() }.find(|report| report.name == responder)
    }
}

/// The name of an Eviction.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "lifecycle.k8s.io/v1alpha1/Eviction")]
pub struct EvictionName {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
}

/// The wish of one requester.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "lifecycle.k8s.io/v1alpha1/EvictionRequest")]
pub struct EvictionRequest {
    #[view(
        path = "metadata",
        fields("creationTimestamp", "deletionTimestamp", "generation")
    )]
    pub meta: Meta,
    #[view(path = "spec.target.pod")]
    pub pod: Option<PodReference>,
    #[view(path = "spec.requester")]
    pub requester: String,
    /// `Eviction` or `Withdrawn`.
    #[view(path = "spec.intent")]
    pub intent: String,
    #[view(path = "status.observedGeneration")]
    pub observed_generation: Option<i64>,
    #[view(path = "status.conditions")]
    pub conditions: Vec<Condition>,
}

impl EvictionRequest {
    /// Whether the requester wants the target to be evicted. A request that is being deleted counts as withdrawn.
    pub fn wants_eviction(&self) -> bool {
        !self.meta.is_deleting() && self.intent == EVICTION
    }
}

/// A pod that may be evicted.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "spec.evictionResponders")]
    pub responders: Vec<Responder>,
    #[view(path = "spec.schedulingGroup")]
    pub group: Option<Raw>,
    #[view(path = "spec.initContainers", fields("[*].name", "[*].restartPolicy"))]
    pub init_containers: Vec<InitContainer>,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(
        path = "status.containerStatuses",
        fields("[*].name", "[*].state.terminated.finishedAt")
    )]
    pub statuses: Vec<ContainerStatus>,
    #[view(
        path = "status.initContainerStatuses",
        fields("[*].name", "[*].state.terminated.finishedAt")
    )]
    pub init_statuses: Vec<ContainerStatus>,
}

impl Pod {
    /// The parts by which [`flyball_pods::may_be_over`] judges it.
    pub fn life(&self) -> (&Meta, &str) {
        (&self.meta, &self.phase)
    }

    pub fn is_terminal(&self) -> bool {
        has_ended(&self.phase)
    }
}

/// A pod as a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodReference {
    pub name: String,
    pub uid: String,
}

/// A requester in an Eviction's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requester {
    pub name: String,
    pub intent: String,
}

/// A responder that a pod names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Responder {
    pub name: String,
    pub priority: Option<i64>,
}

/// A responder in an Eviction's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetResponder {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// See [`crate::responders`].
    pub state: String,
}

/// What a responder has reported. Only `startTime` is the controller's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    pub name: String,
    pub start_time: Option<Time>,
    pub heartbeat_time: Option<Time>,
    pub completion_time: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InitContainer {
    pub name: String,
    pub restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    pub finished_at: Option<Time>,
}

impl ContainerStatus {
    /// When the container ended; `None` if it has not, or nobody knows.
    pub fn finished(&self) -> Option<Time> {
        self.state.terminated.as_ref()?.finished_at
    }
}

fn is_true(conditions: &[Condition], condition_type: &str) -> bool {
    condition::get(conditions, condition_type).is_some_and(Condition::is_true)
}
