//! The fields that the controller reads of budgets, of pods and of their controllers.
//!
//! Upstream: staging/src/k8s.io/component-helpers/apps/poddisruptionbudget/helpers.go: ConditionsAreUpToDate.

use std::collections::BTreeMap;

use flyball_sdk::ObjectReference;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::{Deserialize, Serialize};

/// The condition of a budget that tells whether it allows disruptions.
pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// The reason of that condition if the status could not be computed.
pub const SYNC_FAILED: &str = "SyncFailed";

/// A PodDisruptionBudget.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "policy/v1/PodDisruptionBudget")]
pub struct Budget {
    #[view(path = "metadata", fields("generation"))]
    pub meta: Meta,
    /// Takes precedence over `minAvailable`. The API allows one of them.
    #[view(path = "spec.maxUnavailable")]
    pub max_unavailable: Option<IntOrPercent>,
    #[view(path = "spec.minAvailable")]
    pub min_available: Option<IntOrPercent>,
    #[view(path = "spec.selector")]
    pub selector: Raw,
    /// The last status that this controller or, for an eviction, the API server has written.
    #[view(path = "status")]
    pub status: Status,
}

/// A budget that may select the same pods as another one.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "policy/v1/PodDisruptionBudget")]
pub struct Rival {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "spec.selector")]
    pub selector: Raw,
}

/// The status of a budget. It is always written whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation that the other fields are computed for. The API server refuses evictions while it is not the
    /// current one.
    pub observed_generation: i64,
    /// The pods whose eviction was allowed, and when. They are not yet being deleted.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub disrupted_pods: BTreeMap<String, Time>,
    /// Number of pods that may be evicted now.
    pub disruptions_allowed: i32,
    /// Number of healthy pods.
    pub current_healthy: i32,
    /// Number of pods that must be healthy.
    pub desired_healthy: i32,
    /// Number of pods that percentages refer to.
    pub expected_pods: i32,
    /// Conditions of other types are preserved.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

/// A pod of a budget. Every change of a pod counts all pods of the budget, so the view has no `fields`: it is listed as
/// rows.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.uid")]
    pub uid: String,
    #[view(path = "metadata.resourceVersion")]
    pub resource_version: String,
    #[view(path = "metadata.ownerReferences")]
    pub owners: Vec<OwnerReference>,
    /// The deletion timestamp; `None` if it is not being deleted.
    #[view(path = "metadata.deletionTimestamp")]
    pub deleted: Option<Time>,
    /// The status of the condition Ready: `True`, `False` or `Unknown`.
    #[view(path = "status.conditions[type=Ready].status")]
    pub ready: String,
}

/// A pod of a budget, for finding other budgets that select it.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct LabelledPod {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "metadata.uid")]
    pub uid: String,
    #[view(path = "metadata.resourceVersion")]
    pub resource_version: String,
    #[view(path = "metadata.labels")]
    pub labels: LabelSet,
}

/// A pod, for its condition DisruptionTarget.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct DisruptedPod {
    #[view(path = "metadata", fields("generation", "deletionTimestamp"))]
    pub meta: Meta,
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(path = "status.conditions[type=DisruptionTarget]")]
    pub condition: Option<Condition>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/Deployment")]
pub struct Deployment {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    #[view(path = "spec.replicas")]
    pub replicas: Option<i32>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/ReplicaSet")]
pub struct ReplicaSet {
    #[view(path = "metadata", fields("ownerReferences"))]
    pub meta: Meta,
    #[view(path = "spec.replicas")]
    pub replicas: Option<i32>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ReplicationController")]
pub struct ReplicationController {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    #[view(path = "spec.replicas")]
    pub replicas: Option<i32>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/StatefulSet")]
pub struct StatefulSet {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    #[view(path = "spec.replicas")]
    pub replicas: Option<i32>,
}

impl Budget {
    /// Whether the budget itself is new or has changed since it was last reconciled.
    pub fn has_changed(&self) -> bool {
        let condition = flyball_sdk::condition::get(&self.status.conditions, DISRUPTION_ALLOWED);
        condition.is_none_or(|condition| {
            // After a failure, the observed generation stays behind.
            self.status.observed_generation != self.meta.generation
                && condition.reason != SYNC_FAILED
        })
    }
}

impl Status {
    /// Whether this status says the same as an older one. The message of the condition and its generation don't count.
    pub fn repeats(&self, older: &Status) -> bool {
        let verdict = |status: &Status| {
            flyball_sdk::condition::get(&status.conditions, DISRUPTION_ALLOWED)
                .map(|condition| (condition.status.clone(), condition.reason.clone()))
        };
        let others = |status: &Status| Status {
            conditions: Vec::new(),
            ..status.clone()
        };
        others(self) == others(older) && verdict(self) == verdict(older)
    }
}

impl Pod {
    /// Returns the owner reference of the controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }

    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }

    /// Returns a reference to the pod, for events.
    pub fn reference(&self, namespace: &str) -> ObjectReference {
        pod_reference(namespace, &self.name, &self.uid, &self.resource_version)
    }
}

impl LabelledPod {
    /// Returns a reference to the pod, for events.
    pub fn reference(&self, namespace: &str) -> ObjectReference {
        pod_reference(namespace, &self.name, &self.uid, &self.resource_version)
    }
}

fn pod_reference(namespace: &str, name: &str, uid: &str, version: &str) -> ObjectReference {
    ObjectReference {
        kind: Pod::KIND.into(),
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
        resource_version: version.into(),
    }
}
