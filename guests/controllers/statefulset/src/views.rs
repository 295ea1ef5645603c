//! The fields that the controller reads of StatefulSets, pods and PersistentVolumeClaims, and the
//! status that it writes.
//!
//! Upstream: pkg/controller/statefulset/stateful_set_utils.go: allowsBurst, isRunningAndReady, isRunningAndAvailable,
//! isTerminating, getPodRevision, inconsistentStatus.

use std::time::Duration;

use flyball_ownership::{Adoptable, Facts};
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use flyball_sdk::serde_json::Map;
use serde::{Deserialize, Serialize};

#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/StatefulSet")]
pub struct StatefulSet {
    #[view(path = "metadata", fields("generation", "deletionTimestamp"))]
    pub meta: Meta,
    /// The desired number of pods; the API's default is 1.
    #[view(path = "spec.replicas")]
    pub replicas: Option<i32>,
    /// Selects the pods that it may own: a LabelSelector.
    #[view(path = "spec.selector")]
    pub selector: Raw,
    /// The template of its pods.
    #[view(path = "spec.template")]
    pub template: Raw,
    /// The templates of each pod's claims.
    #[view(path = "spec.volumeClaimTemplates", fields("[*].metadata", "[*].spec"))]
    pub claim_templates: Vec<ClaimTemplate>,
    /// The Service that gives the pods their DNS names.
    #[view(path = "spec.serviceName")]
    pub service_name: String,
    /// `OrderedReady` or `Parallel`.
    #[view(path = "spec.podManagementPolicy")]
    pub pod_management_policy: String,
    #[view(path = "spec.updateStrategy")]
    pub update_strategy: UpdateStrategy,
    /// The number of old revisions to keep; the API's default is 10.
    #[view(path = "spec.revisionHistoryLimit")]
    pub revision_history_limit: Option<i32>,
    /// Seconds for which a pod must be ready before it counts as available.
    #[view(path = "spec.minReadySeconds")]
    pub min_ready_seconds: u32,
    /// The policy for the claims of pods that are no longer wanted.
    #[view(path = "spec.persistentVolumeClaimRetentionPolicy")]
    pub retention: Retention,
    /// The ordinal of the first pod.
    #[view(path = "spec.ordinals.start")]
    pub start: i32,
    /// The last status that was written.
    #[view(path = "status")]
    pub status: Status,
}

/// A StatefulSet, for checking its existence and version.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/StatefulSet")]
pub struct Presence {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
}

/// The annotations that a new revision inherits.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "apps/v1/StatefulSet")]
pub struct Annotated {
    #[view(path = "metadata", fields("annotations"))]
    pub meta: Meta,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(path = "metadata", fields("deletionTimestamp", "labels"))]
    pub meta: PodMeta,
    #[view(
        path = "spec.volumes",
        fields("[*].name", "[*].persistentVolumeClaim.claimName")
    )]
    pub volumes: Vec<Volume>,
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

/// The metadata of a [`Pod`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMeta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub labels: LabelSet,
    pub deletion_timestamp: Option<Time>,
}

/// A volume of a [`Pod`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: String,
    pub persistent_volume_claim: Option<ClaimSource>,
}

/// The claim that a [`Volume`] uses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    pub claim_name: String,
}

/// A pod with its whole volumes, for repairing it.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct LivePod {
    #[view(path = "metadata", fields())]
    pub meta: Meta,
    #[view(path = "spec.volumes")]
    pub volumes: Vec<Value>,
}

/// A PersistentVolumeClaim.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/PersistentVolumeClaim")]
pub struct Claim {
    #[view(path = "metadata", fields("deletionTimestamp", "ownerReferences"))]
    pub meta: ClaimMeta,
}

/// The metadata of a [`Claim`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimMeta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "null_is_default")]
    pub owner_references: Vec<Owner>,
}

/// An owner reference of a claim. It is written back unchanged, so an absent flag stays absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// A template of a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimTemplate {
    pub metadata: Map<String, Value>,
    pub spec: Raw,
}

/// `spec.updateStrategy`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `RollingUpdate`, `OnDelete` or `Recreate`.
    #[serde(rename = "type")]
    pub strategy_type: String,
    pub rolling_update: Option<RollingUpdate>,
}

/// `spec.updateStrategy.rollingUpdate`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// The number of pods, from the first one, that keep the current revision.
    #[serde(deserialize_with = "null_is_default")]
    pub partition: i32,
    /// How many pods may be unavailable: a number or a percentage; 1 if absent.
    pub max_unavailable: Option<IntOrPercent>,
}

/// `spec.persistentVolumeClaimRetentionPolicy`: `Retain` or `Delete`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retention {
    pub when_deleted: String,
    pub when_scaled: String,
}

/// The status. It is always written whole. Zeros are written, too: if the change is applied as a
/// merge patch, an omitted zero would keep the old number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The last generation that the controller observed.
    pub observed_generation: i64,
    /// The number of pods.
    pub replicas: i32,
    /// The number of running and ready pods.
    pub ready_replicas: i32,
    /// The number of running pods that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// The number of pods of the current revision.
    pub current_replicas: i32,
    /// The number of pods of the update revision.
    pub updated_replicas: i32,
    /// The revision before the update; without an update, the revision of all pods.
    #[serde(deserialize_with = "null_is_default")]
    pub current_revision: String,
    /// The revision of the template.
    #[serde(deserialize_with = "null_is_default")]
    pub update_revision: String,
    /// The number of collisions of a new revision's name.
    pub collision_count: Option<i32>,
    /// `Progressing`, which the strategy Recreate has, and those of other clients.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub conditions: Vec<Condition>,
}

impl StatefulSet {
    /// The desired number of pods.
    pub fn wanted(&self) -> usize {
        usize::try_from(self.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// How long a pod must be ready before it counts as available.
    pub fn min_ready(&self) -> Duration {
        Duration::from_secs(self.min_ready_seconds.into())
    }

    /// The ordinal of the first pod (KEP-3335).
    pub fn first_ordinal(&self) -> i64 {
        self.start.into()
    }

    /// Whether the set should have a pod with this ordinal.
    pub fn wants(&self, ordinal: i64) -> bool {
        let first = self.first_ordinal();
        (first..first + self.wanted() as i64).contains(&ordinal)
    }

    /// Whether each pod waits for the one before.
    pub fn is_ordered(&self) -> bool {
        self.pod_management_policy != "Parallel"
    }

    /// Whether the strategy is RollingUpdate.
    pub fn is_rolling(&self) -> bool {
        self.update_strategy.strategy_type == "RollingUpdate"
    }

    /// Whether the strategy is Recreate.
    pub fn is_recreated(&self) -> bool {
        self.update_strategy.strategy_type == "Recreate"
    }

    /// The number of pods, from the first one, that an update leaves alone.
    pub fn partition(&self) -> usize {
        let rolling = self.update_strategy.rolling_update.as_ref();
        rolling.map_or(0, |rolling| usize::try_from(rolling.partition).unwrap_or(0))
    }

    /// The labels that the selector requires by `matchLabels`.
    pub fn match_labels(&self) -> Map<String, Value> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Selector {
            match_labels: Option<Map<String, Value>>,
        }
        let selector: Option<Selector> = self.selector.parse().ok().flatten();
        selector
            .and_then(|selector| selector.match_labels)
            .unwrap_or_default()
    }
}

impl Pod {
    /// Whether the pod is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// Whether the pod is running and ready.
    pub fn is_ready(&self) -> bool {
        self.phase == "Running" && self.ready == "True"
    }

    /// Whether the pod has been ready for this long. A pod whose Ready condition has no time is never available, unless
    /// no time is required.
    pub fn is_available(&self, min_ready: Duration, now: Time) -> bool {
        self.ready == "True"
            && (min_ready.is_zero() || self.available_at(min_ready).is_some_and(|at| at <= now))
    }

    /// When a ready pod is or was available; `None` if it isn't ready or its condition has no time.
    pub fn available_at(&self, min_ready: Duration) -> Option<Time> {
        let since = self.ready_since.filter(|_| self.ready == "True");
        since.map(|since| since + min_ready)
    }

    /// The name of its revision; empty if it has none.
    pub fn revision(&self) -> &str {
        let label = self.meta.labels.label("controller-revision-hash");
        label.unwrap_or_default()
    }
}

impl Adoptable for Pod {
    fn facts(&self) -> Facts<'_, impl Labels> {
        // `is_free` is only used for orphans, and the list of orphans contains no pod with a
        // controller.
        Facts {
            name: &self.meta.name,
            uid: &self.meta.uid,
            labels: &self.meta.labels,
            is_free: !self.is_terminating(),
        }
    }
}

impl ClaimMeta {
    /// The metadata that identifies the claim in a write.
    pub fn identity(&self) -> Meta {
        Meta {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            ..Meta::default()
        }
    }
}

impl Status {
    /// Whether this status has to be written over an older one. A different number of collisions alone is not a reason,
    /// because it comes with a new revision.
    pub fn replaces(&self, older: &Status) -> bool {
        let rest = |status: &Status| Status {
            observed_generation: 0,
            collision_count: None,
            ..status.clone()
        };
        self.observed_generation > older.observed_generation || rest(self) != rest(older)
    }
}
