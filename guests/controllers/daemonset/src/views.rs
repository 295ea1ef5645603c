//! The fields that the controller reads of DaemonSets, nodes and pods, and the status that it
//! writes.
//!
//! Upstream: pkg/controller/daemon/util/daemonset_util.go: GetTemplateGeneration, AllowsSurge, SurgeCount,
//! UnavailableCount, GetTargetNodeName.

use flyball_pods::{PodTemplateMeta, has_ended};
use flyball_sdk::StringMap;
use flyball_sdk::condition::Condition;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_taints::{Taint, Toleration};
use serde::{Deserialize, Serialize};

use crate::affinity::{Affinity, Expression, NAME_FIELD, Term};

/// The annotation with the generation of the template. The API server sets it.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/DaemonSet")]
pub struct DaemonSet {
    /// The annotations are copied into revisions.
    #[view(
        path = "metadata",
        fields("generation", "deletionTimestamp", "annotations")
    )]
    pub meta: Meta,
    /// Selects the pods and revisions that it may own: a LabelSelector.
    #[view(path = "spec.selector")]
    pub selector: Raw,
    /// The template of its pods.
    #[view(path = "spec.template")]
    pub template: Raw,
    /// Seconds for which a pod must be ready before it counts as available.
    #[view(path = "spec.minReadySeconds")]
    pub min_ready_seconds: u32,
    /// `RollingUpdate` or `OnDelete`.
    #[view(path = "spec.updateStrategy.type")]
    pub strategy: String,
    /// On how many nodes a second pod may run during an update: a number or a percentage.
    #[view(path = "spec.updateStrategy.rollingUpdate.maxSurge")]
    pub max_surge: IntOrPercent,
    /// On how many nodes no pod may be available during an update: a number or a percentage.
    #[view(path = "spec.updateStrategy.rollingUpdate.maxUnavailable")]
    pub max_unavailable: IntOrPercent,
    /// The number of old revisions to keep; the API's default is 10.
    #[view(path = "spec.revisionHistoryLimit")]
    pub revision_history_limit: Option<i32>,
    /// The last status that was written.
    #[view(path = "status")]
    pub status: Status,
}

/// A DaemonSet, for checking its existence and for writing its status.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/DaemonSet")]
pub struct Presence {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "status")]
    pub status: Status,
}

/// A DaemonSet, for finding out whether a change of a node concerns it.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/DaemonSet")]
pub struct Candidate {
    #[view(path = "metadata.namespace")]
    pub namespace: String,
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "spec.template.spec.nodeName")]
    pub node_name: String,
    #[view(path = "spec.template.spec.hostNetwork")]
    pub host_network: bool,
    #[view(path = "spec.template.spec.nodeSelector")]
    pub node_selector: StringMap,
    #[view(path = "spec.template.spec.affinity")]
    pub affinity: Option<Affinity>,
    #[view(path = "spec.template.spec.tolerations")]
    pub tolerations: Vec<Toleration>,
    #[view(path = "status.numberMisscheduled")]
    pub number_misscheduled: i64,
}

/// The parts of a pod template that the controller reads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Template {
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: PodTemplateMeta,
    #[serde(deserialize_with = "null_is_default")]
    pub spec: PodSpec,
}

/// The parts of a pod's spec that restrict its nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The only node on which it may run; empty for any.
    #[serde(deserialize_with = "null_is_default")]
    pub node_name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub host_network: bool,
    #[serde(deserialize_with = "null_is_default")]
    pub node_selector: StringMap,
    pub affinity: Option<Affinity>,
    #[serde(deserialize_with = "null_is_default")]
    pub tolerations: Vec<Toleration>,
}

/// A node. All nodes are read for each DaemonSet, so the view is small and has no `fields`: it is
/// listed as rows.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Node")]
pub struct Node {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.labels")]
    pub labels: LabelSet,
    #[view(path = "spec.taints")]
    pub taints: Vec<Taint>,
}

/// A daemon pod. Listed as rows, like [`Node`].
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.uid")]
    pub uid: String,
    #[view(path = "metadata.labels")]
    pub labels: LabelSet,
    #[view(path = "metadata.creationTimestamp")]
    pub created: Option<Time>,
    /// The deletion timestamp; `None` if it is not being deleted.
    #[view(path = "metadata.deletionTimestamp")]
    pub deleted: Option<Time>,
    /// The node; empty until the pod is scheduled.
    #[view(path = "spec.nodeName")]
    pub node_name: String,
    /// The terms of the required node affinity, which name the node before the pod is scheduled.
    #[view(
        path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    )]
    pub terms: Vec<Term>,
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

/// A pod on a node, for finding the DaemonSets that have one there.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Neighbour {
    #[view(path = "metadata", fields("ownerReferences"))]
    pub meta: Meta,
}

/// The status of a DaemonSet. It is always written whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Number of nodes that should run a pod and have one.
    pub current_number_scheduled: i64,
    /// Number of nodes that should not run a pod and have one.
    pub number_misscheduled: i64,
    /// Number of nodes that should run a pod.
    pub desired_number_scheduled: i64,
    /// Number of nodes that should run a pod and have a ready one.
    pub number_ready: i64,
    /// The last generation that the controller observed.
    pub observed_generation: i64,
    /// Number of nodes that should run a pod and have one of the current template.
    pub updated_number_scheduled: i64,
    /// Number of nodes that should run a pod and have one that has been ready for
    /// `minReadySeconds`.
    pub number_available: i64,
    /// Number of nodes that should run a pod and have no available one.
    pub number_unavailable: i64,
    /// Number of collisions of a new revision's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Conditions of other controllers are preserved.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub conditions: Vec<Condition>,
}

impl DaemonSet {
    /// Whether the DaemonSet's selector is present but empty, so that it would select all pods.
    pub fn selects_everything(&self) -> bool {
        self.selector.parse::<Parts>().is_ok_and(|selector| {
            selector.is_some_and(|parts| {
                parts.match_labels.is_none_or(|labels| labels.is_empty())
                    && parts.match_expressions.is_none_or(|all| all.is_empty())
            })
        })
    }

    /// Parses the selector.
    ///
    /// # Errors
    /// The selector is invalid.
    pub fn selector(&self) -> Result<LabelSelector, Error> {
        LabelSelector::of_json(self.selector.text().as_bytes())
            .map_err(|error| Error::failed(error.to_string()))
    }

    pub fn is_rolling(&self) -> bool {
        self.strategy == "RollingUpdate"
    }

    /// The number of nodes of `desired` ones on which a second pod may run during an update.
    ///
    /// # Errors
    /// It is neither a number nor a percentage.
    pub fn surge(&self, desired: i32) -> Result<i32, Error> {
        if !self.is_rolling() {
            return Ok(0);
        }
        self.max_surge.of(desired, true)
    }

    /// The number of nodes of `desired` ones on which no pod may be available during an update.
    ///
    /// # Errors
    /// It is neither a number nor a percentage.
    pub fn unavailable(&self, desired: i32) -> Result<i32, Error> {
        if !self.is_rolling() {
            return Ok(0);
        }
        self.max_unavailable.of(desired, true)
    }

    /// Whether a node may have two pods during an update.
    pub fn allows_surge(&self) -> bool {
        self.surge(1).is_ok_and(|surge| surge > 0)
    }

    /// The generation of its template; `None` if the annotation is absent or not a number.
    pub fn template_generation(&self) -> Option<i64> {
        self.meta.annotation(TEMPLATE_GENERATION)?.parse().ok()
    }

    pub fn min_ready(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.min_ready_seconds.into())
    }
}

/// A LabelSelector, for finding out whether it is empty.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parts {
    match_labels: Option<StringMap>,
    match_expressions: Option<Vec<Value>>,
}

impl Pod {
    pub fn is_deleting(&self) -> bool {
        self.deleted.is_some()
    }

    /// Whether the pod has ended and is being deleted, so that only a finalizer or the kubelet keeps it.
    pub fn is_leftover(&self) -> bool {
        self.is_deleting() && has_ended(&self.phase)
    }

    pub fn is_scheduled(&self) -> bool {
        !self.node_name.is_empty()
    }

    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    /// Whether the pod has been ready for `minReadySeconds`.
    pub fn is_available(&self, set: &DaemonSet, now: Time) -> bool {
        let is_old_enough = || {
            self.ready_since
                .is_some_and(|since| since + set.min_ready() <= now)
        };
        self.is_ready() && (set.min_ready_seconds == 0 || is_old_enough())
    }

    /// The node that it runs on, or is meant for until it is scheduled; `None` if it names no node, or
    /// more than one.
    pub fn target_node(&self) -> Option<&str> {
        if self.is_scheduled() {
            return Some(&self.node_name);
        }
        let names_node = |field: &&Expression| field.key == NAME_FIELD && field.operator == "In";
        let mut fields = self.terms.iter().flat_map(|term| &term.match_fields);
        match fields.find(names_node)?.values.as_slice() {
            [name] => Some(name),
            _ => None,
        }
    }
}

impl Status {
    /// Whether all counters are the same as in another status.
    pub fn has_counters_of(&self, other: &Self) -> bool {
        let counters = |status: &Self| {
            [
                status.current_number_scheduled,
                status.number_misscheduled,
                status.desired_number_scheduled,
                status.number_ready,
                status.updated_number_scheduled,
                status.number_available,
                status.number_unavailable,
            ]
        };
        counters(self) == counters(other)
    }
}
