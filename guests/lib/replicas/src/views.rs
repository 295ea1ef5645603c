//! The fields that the controller reads of pods and of sets. A set is a ReplicaSet or a
//! ReplicationController, depending on its [`Flavor`](crate::Flavor).
//!
//! Upstream: pkg/controller/controller_utils.go: IsPodActive, IsPodTerminating.

use flyball_pods::{InitContainer, PodTemplate, has_ended};
use flyball_sdk::meta::null_is_default;
use flyball_sdk::{LabelSet, Meta, Raw, Time, View};
use serde::{Deserialize, Serialize};

/// A ReplicaSet, or a ReplicationController.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct Set {
    #[view(
        path = "metadata",
        fields("generation", "deletionTimestamp", "ownerReferences")
    )]
    pub meta: Meta,
    /// The desired number of pods; the API's default is 1.
    #[view(path = "spec.replicas")]
    pub replicas: Option<i32>,
    /// Seconds for which a pod must be ready before it counts as available.
    #[view(path = "spec.minReadySeconds")]
    pub min_ready_seconds: u32,
    /// Selects the pods that it may own: a LabelSelector, or a map of labels.
    #[view(path = "spec.selector")]
    pub selector: Raw,
    /// The template of its pods.
    #[view(
        path = "spec.template",
        fields(
            "metadata.labels",
            "metadata.annotations",
            "metadata.finalizers",
            "spec"
        )
    )]
    pub template: PodTemplate,
    /// The last status that was written.
    #[view(path = "status")]
    pub status: Status,
}

/// A set, for checking its existence and version.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct Presence {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
}

/// A set of the same owner.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct Sibling {
    /// Selects the pods that it may own.
    #[view(path = "spec.selector")]
    pub selector: Raw,
}

/// A pod, for counting. Every change of a pod counts all pods of the set, so the view is small and
/// has no `fields`: it is listed as rows.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.uid")]
    pub uid: String,
    #[view(path = "metadata.labels")]
    pub labels: LabelSet,
    /// The deletion timestamp; `None` if it is not being deleted.
    #[view(path = "metadata.deletionTimestamp")]
    pub deleted: Option<Time>,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[view(path = "status.phase")]
    pub phase: String,
    /// The status of the condition Ready: `True`, `False` or `Unknown`.
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: String,
    /// When it became ready or unready.
    #[view(path = "status.conditions[type=Ready].lastTransitionTime")]
    pub ready_since: Option<Time>,
}

/// A pod, for ranking when pods must be deleted.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Candidate {
    #[view(
        path = "metadata",
        fields(
            "annotations['controller.kubernetes.io/pod-deletion-cost']",
            "creationTimestamp"
        )
    )]
    pub meta: Meta,
    /// The node; empty until the pod is scheduled.
    #[view(path = "spec.nodeName")]
    pub node: String,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: String,
    #[view(path = "status.conditions[type=Ready].lastTransitionTime")]
    pub ready_since: Option<Time>,
    #[view(path = "status.containerStatuses", fields("[*].restartCount"))]
    pub containers: Vec<Container>,
    /// The statuses of the init containers.
    #[view(
        path = "status.initContainerStatuses",
        fields("[*].name", "[*].restartCount")
    )]
    pub init_containers: Vec<Container>,
    /// The init containers of the spec.
    #[view(path = "spec.initContainers", fields("[*].name", "[*].restartPolicy"))]
    pub init_specs: Vec<InitContainer>,
}

/// A pod of a sibling, for counting pods by node.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct RelatedPod {
    #[view(path = "metadata.uid")]
    pub uid: String,
    /// The deletion timestamp; `None` if it is not being deleted.
    #[view(path = "metadata.deletionTimestamp")]
    pub deleted: Option<Time>,
    #[view(path = "spec.nodeName")]
    pub node: String,
    #[view(path = "status.phase")]
    pub phase: String,
}

/// The status. It is always written whole. Zeros are written, too: if the change is applied as a
/// merge patch, an omitted zero would keep the old number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Number of active pods.
    pub replicas: i32,
    /// Number of active pods that have all labels of the template.
    pub fully_labeled_replicas: i32,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// The number of pods that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// Number of pods that are being deleted and have not ended; `None` if the kind does not report
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The last generation that the controller observed.
    pub observed_generation: i64,
    /// Conditions of other controllers are preserved.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

/// A condition of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The status of a container of a [`Candidate`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub restart_count: i32,
}

impl Status {
    /// Whether this status equals an older one, except for the generation.
    pub fn repeats(&self, older: &Status) -> bool {
        let counts = |status: &Status| Status {
            observed_generation: 0,
            terminating_replicas: status.terminating_replicas.filter(|&count| count > 0),
            ..status.clone()
        };
        counts(self) == counts(older)
    }
}

impl Set {
    /// The desired number of pods.
    pub fn wanted(&self) -> usize {
        usize::try_from(self.replicas.unwrap_or(1)).unwrap_or(0)
    }
}

impl Pod {
    /// Whether the pod has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        !has_ended(&self.phase) && self.deleted.is_none()
    }

    /// Whether the pod is being deleted and has not ended.
    pub fn is_terminating(&self) -> bool {
        !has_ended(&self.phase) && self.deleted.is_some()
    }

    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    /// When it became ready; `None` if it isn't ready or the condition has no time.
    pub fn ready_since(&self) -> Option<Time> {
        self.ready_since.filter(|_| self.is_ready())
    }
}

impl Candidate {
    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }
}

impl RelatedPod {
    /// Whether the pod has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        !has_ended(&self.phase) && self.deleted.is_none()
    }
}
