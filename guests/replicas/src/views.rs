//! The fields that the controller reads, and no others: of the object that asks for pods (called a set, of whatever
//! [`Flavor`](crate::Flavor)), and of pods.

use flyball_sdk::meta::null_is_default;
use flyball_sdk::pod::{InitContainer, PodTemplate, has_ended};
use flyball_sdk::{LabelSet, Meta, Raw, Time, View};
use serde::{Deserialize, Serialize};

/// A ReplicaSet, or a ReplicationController.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct Set {
    /// Who it is.
    #[view(
        path = "metadata",
        fields("generation", "deletionTimestamp", "ownerReferences")
    )]
    pub meta: Meta,
    /// How many pods it asks for; the API's default is 1.
    #[view(path = "spec.replicas")]
    pub replicas: Option<i32>,
    /// For how many seconds a pod must be ready to be available.
    #[view(path = "spec.minReadySeconds")]
    pub min_ready_seconds: u32,
    /// Which pods can be its own: a LabelSelector, or a map of labels.
    #[view(path = "spec.selector")]
    pub selector: Raw,
    /// What its pods are made from.
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
    /// What it was last said to be.
    #[view(path = "status")]
    pub status: Status,
}

/// Whether a set is still there, and in which version.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct Presence {
    /// Who it is.
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
}

/// A set of the same owner.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct Sibling {
    /// Which pods can be its own.
    #[view(path = "spec.selector")]
    pub selector: Raw,
}

/// A pod, as it is counted: of a hundred pods, each change of one counts all. So it is no more than that, and flat.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    /// Its name.
    #[view(path = "metadata.name")]
    pub name: String,
    /// Its UID.
    #[view(path = "metadata.uid")]
    pub uid: String,
    /// Its labels.
    #[view(path = "metadata.labels")]
    pub labels: LabelSet,
    /// Since when it is being deleted.
    #[view(path = "metadata.deletionTimestamp")]
    pub deleted: Option<Time>,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[view(path = "status.phase")]
    pub phase: String,
    /// Whether it is ready: `True`, `False` or `Unknown`.
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: String,
    /// Since when it is, or isn't.
    #[view(path = "status.conditions[type=Ready].lastTransitionTime")]
    pub ready_since: Option<Time>,
}

/// A pod, as it is compared to others when some of them have to go.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Candidate {
    /// Who it is.
    #[view(
        path = "metadata",
        fields(
            "annotations['controller.kubernetes.io/pod-deletion-cost']",
            "creationTimestamp"
        )
    )]
    pub meta: Meta,
    /// Its node; empty until it is scheduled.
    #[view(path = "spec.nodeName")]
    pub node: String,
    /// As of a [`Pod`].
    #[view(path = "status.phase")]
    pub phase: String,
    /// As of a [`Pod`].
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: String,
    /// As of a [`Pod`].
    #[view(path = "status.conditions[type=Ready].lastTransitionTime")]
    pub ready_since: Option<Time>,
    /// Its containers.
    #[view(path = "status.containerStatuses", fields("[*].restartCount"))]
    pub containers: Vec<Container>,
    /// Its init containers, as they run.
    #[view(
        path = "status.initContainerStatuses",
        fields("[*].name", "[*].restartCount")
    )]
    pub init_containers: Vec<Container>,
    /// Its init containers, as they were asked for.
    #[view(path = "spec.initContainers", fields("[*].name", "[*].restartPolicy"))]
    pub init_specs: Vec<InitContainer>,
}

/// A pod of a sibling: all that is asked is where it runs.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Bystander {
    /// Its UID.
    #[view(path = "metadata.uid")]
    pub uid: String,
    /// Since when it is being deleted.
    #[view(path = "metadata.deletionTimestamp")]
    pub deleted: Option<Time>,
    /// Its node.
    #[view(path = "spec.nodeName")]
    pub node: String,
    /// Its phase.
    #[view(path = "status.phase")]
    pub phase: String,
}

/// The status, as it is read and, always whole, written. What is zero is written, too: a zero that is left out would keep
/// the old number wherever the change is taken as a merge patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// How many active pods there are.
    pub replicas: i32,
    /// How many of them have all labels of the template.
    pub fully_labeled_replicas: i32,
    /// How many of them are ready.
    pub ready_replicas: i32,
    /// How many of them have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// How many of its pods are being deleted and have not yet ended; none where the kind does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The generation that these numbers are for.
    pub observed_generation: i64,
    /// What else is to be known. Those of others stay as they are.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

/// A condition of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when.
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A container of a [`Candidate`], as it runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// How often it was restarted.
    pub restart_count: i32,
}

impl Status {
    /// Whether it says what an older one said, but for the generation.
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
    /// How many pods it asks for.
    pub fn wanted(&self) -> usize {
        usize::try_from(self.replicas.unwrap_or(1)).unwrap_or(0)
    }
}

impl Pod {
    /// Whether it counts: it has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        !has_ended(&self.phase) && self.deleted.is_none()
    }

    /// Whether it is being deleted and has not yet ended.
    pub fn is_terminating(&self) -> bool {
        !has_ended(&self.phase) && self.deleted.is_some()
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    /// Since when it is ready; none if it isn't, or if that is not said.
    pub fn ready_since(&self) -> Option<Time> {
        self.ready_since.filter(|_| self.is_ready())
    }
}

impl Candidate {
    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }
}

impl Bystander {
    /// Whether it counts.
    pub fn is_active(&self) -> bool {
        !has_ended(&self.phase) && self.deleted.is_none()
    }
}
