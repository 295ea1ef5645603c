//! The fields that the controller reads of Jobs and pods, and the status that it writes.
//!
//! Upstream: pkg/controller/job/job_controller.go: getCompletionMode, onlyReplaceFailedPods,
//! managedByExternalController.
//! Upstream: pkg/controller/job/util/utils.go: IsJobFinished.

use flyball_pods::{InitContainer, PodTemplate};
use flyball_sdk::condition;
use flyball_sdk::meta::null_is_default;
use flyball_sdk::prelude::*;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// The index of pods by finalizer. Together with [`BY_PHASE`], it finds the pods that still matter without reading the
/// pods that are counted, so the cost of a reconcile does not grow with a job's completions.
pub const BY_FINALIZER: &str = "finalizer";
/// The index of pods by phase.
pub const BY_PHASE: &str = "phase";

/// The value of `spec.managedBy` that names this controller (KEP-4368).
const OURS: &str = "kubernetes.io/job-controller";

#[derive(View, Clone, Debug, Default)]
#[view(kind = "batch/v1/Job")]
pub struct Job {
    #[view(path = "metadata", fields("generation", "deletionTimestamp"))]
    pub meta: Meta,
    /// The number of pods that may run at once; the API's default is 1.
    #[view(path = "spec.parallelism")]
    pub parallelism: Option<i32>,
    /// The number of pods that must succeed; if absent, one success completes the Job.
    #[view(path = "spec.completions")]
    pub completions: Option<i32>,
    /// `NonIndexed` (the default) or `Indexed`.
    #[view(path = "spec.completionMode")]
    pub completion_mode: Option<String>,
    /// Seconds that the Job may be active.
    #[view(path = "spec.activeDeadlineSeconds")]
    pub active_deadline_seconds: Option<i64>,
    /// How failed pods are handled.
    #[view(path = "spec.podFailurePolicy")]
    pub pod_failure_policy: Option<FailurePolicy>,
    /// Lets an Indexed Job succeed before all of its indexes do.
    #[view(path = "spec.successPolicy")]
    pub success_policy: Option<SuccessPolicy>,
    /// The number of pods that may fail; the API's default is 6, or no limit if there is one per
    /// index.
    #[view(path = "spec.backoffLimit")]
    pub backoff_limit: Option<i32>,
    /// The number of pods of one index that may fail; if absent, failures are not counted per
    /// index.
    #[view(path = "spec.backoffLimitPerIndex")]
    pub backoff_limit_per_index: Option<i32>,
    /// The number of indexes that may fail.
    #[view(path = "spec.maxFailedIndexes")]
    pub max_failed_indexes: Option<i32>,
    /// Selects the pods that it may own.
    #[view(path = "spec.selector")]
    pub selector: Selector,
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
    /// Whether the Job is suspended.
    #[view(path = "spec.suspend")]
    pub suspend: bool,
    /// When a pod is replaced: `TerminatingOrFailed` or `Failed` (KEP-3939).
    #[view(path = "spec.podReplacementPolicy")]
    pub pod_replacement_policy: String,
    /// The controller that manages it; this one if absent.
    #[view(path = "spec.managedBy")]
    pub managed_by: Option<String>,
    /// The last status that was written.
    #[view(path = "status")]
    pub status: Status,
}

/// A Job, with the fields that tell whether it has ended and which controller manages it.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "batch/v1/Job")]
pub struct Presence {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    pub meta: Meta,
    /// The controller that manages it; this one if absent.
    #[view(path = "spec.managedBy")]
    pub managed_by: Option<String>,
    #[view(path = "status.conditions")]
    pub conditions: Vec<Condition>,
}

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct Pod {
    #[view(
        path = "metadata",
        fields(
            "labels",
            "annotations['batch.kubernetes.io/job-completion-index']",
            "annotations['batch.kubernetes.io/job-index-failure-count']",
            "annotations['batch.kubernetes.io/job-index-ignored-failure-count']",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "finalizers",
        )
    )]
    pub meta: Meta,
    /// The node; empty until the pod is scheduled.
    #[view(path = "spec.nodeName")]
    pub node: String,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[view(path = "status.phase")]
    pub phase: String,
    #[view(
        path = "status.conditions",
        fields("[*].type", "[*].status", "[*].lastTransitionTime")
    )]
    pub conditions: Vec<PodCondition>,
    #[view(
        path = "status.containerStatuses",
        fields(
            "[*].name",
            "[*].restartCount",
            "[*].state.terminated.exitCode",
            "[*].state.terminated.finishedAt",
        )
    )]
    pub containers: Vec<Container>,
    /// The statuses of the init containers.
    #[view(
        path = "status.initContainerStatuses",
        fields(
            "[*].name",
            "[*].restartCount",
            "[*].state.terminated.exitCode",
            "[*].state.terminated.finishedAt",
        )
    )]
    pub init_containers: Vec<Container>,
    /// The init containers of the spec.
    #[view(path = "spec.initContainers", fields("[*].name", "[*].restartPolicy"))]
    pub init_specs: Vec<InitContainer>,
}

/// A pod that may still have the finalizer although no Job counts it.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Pod")]
pub struct HeldPod {
    #[view(
        path = "metadata",
        fields("deletionTimestamp", "finalizers", "ownerReferences")
    )]
    pub meta: Meta,
    #[view(path = "status.phase")]
    pub phase: String,
}

/// `spec.podFailurePolicy`: the first rule that a failed pod matches decides.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct FailurePolicy {
    #[serde(deserialize_with = "null_is_default")]
    pub rules: Vec<FailureRule>,
}

/// A rule with one of two patterns.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureRule {
    /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
    pub action: String,
    /// Matches pods by how their containers ended.
    pub on_exit_codes: Option<ExitCodes>,
    /// Matches pods that have one of these conditions.
    #[serde(deserialize_with = "null_is_default")]
    pub on_pod_conditions: Vec<ConditionPattern>,
}

/// Matches a container that ended with one of these exit codes, or with none of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitCodes {
    /// Only the container of this name.
    pub container_name: Option<String>,
    /// `In` or `NotIn`.
    pub operator: String,
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<i32>,
}

/// Matches a pod's condition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ConditionPattern {
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// `spec.successPolicy`: the job succeeds when one rule is met.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    #[serde(deserialize_with = "null_is_default")]
    pub rules: Vec<SuccessRule>,
}

/// A rule is met when enough of its indexes have succeeded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRule {
    /// The rule's indexes in the notation `1,3-5`; all indexes if absent.
    pub succeeded_indexes: Option<String>,
    /// How many of them must succeed; all if absent.
    pub succeeded_count: Option<i32>,
}

/// The status. It is always written whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Conditions of other controllers are preserved.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub conditions: Vec<Condition>,
    /// When the Job was started or last resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Number of pods that are pending or running and not being deleted.
    pub active: i32,
    /// Number of pods that have succeeded; in an Indexed Job, of indexes.
    pub succeeded: i32,
    /// Number of pods that have failed.
    pub failed: i32,
    /// Number of pods that are being deleted and have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i32>,
    /// Succeeded indexes in the notation `1,3-5`.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub completed_indexes: String,
    /// Failed indexes; absent without a backoff limit per index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    /// Pods that have ended and are not in the counters yet.
    #[serde(deserialize_with = "null_is_default")]
    pub uncounted_terminated_pods: Uncounted,
    /// Number of active pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
}

/// UIDs of pods that have ended and whose finalizers may not have been removed yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uncounted {
    /// Succeeded pods; always empty in an Indexed Job.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub succeeded: Vec<String>,
    /// Failed pods.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub failed: Vec<String>,
}

/// A condition of a [`Pod`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub last_transition_time: Option<Time>,
}

/// The status of a container of a [`Pod`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub restart_count: i32,
    #[serde(deserialize_with = "null_is_default")]
    pub state: ContainerState,
}

/// The state of a [`Container`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub terminated: Option<Terminated>,
}

/// How a [`Container`] ended.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    pub exit_code: i32,
    pub finished_at: Option<Time>,
}

impl Job {
    /// Number of pods that may run at once.
    pub fn parallelism(&self) -> usize {
        self.parallelism
            .map_or(1, |pods| usize::try_from(pods).unwrap_or(0))
    }

    /// Number of pods that may fail.
    pub fn backoff_limit(&self) -> i32 {
        self.backoff_limit
            .unwrap_or(if self.backoff_limit_per_index.is_some() {
                i32::MAX
            } else {
                6
            })
    }

    /// Whether each of its completions has an index.
    pub fn is_indexed(&self) -> bool {
        self.completion_mode.as_deref() == Some("Indexed")
    }

    /// Number of indexes; each index is below it.
    pub fn indexes(&self) -> i64 {
        self.completions.unwrap_or(0).into()
    }

    /// The value of the metrics' `completion_mode` label.
    pub fn mode(&self) -> &'static str {
        if self.is_indexed() {
            "Indexed"
        } else {
            "NonIndexed"
        }
    }

    /// Whether this controller supports its completion mode.
    pub fn has_known_mode(&self) -> bool {
        matches!(
            self.completion_mode.as_deref(),
            None | Some("Indexed" | "NonIndexed")
        )
    }

    /// Whether a pod is replaced only after it has ended, rather than when its deletion is
    /// requested.
    pub fn replaces_only_ended(&self) -> bool {
        self.pod_replacement_policy == "Failed"
    }

    /// Whether the kubelet restarts failed containers in place (`restartPolicy: OnFailure`).
    pub fn restarts_on_failure(&self) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            restart_policy: Option<String>,
        }
        let spec: Option<Spec> = self.template.spec.parse().ok().flatten();
        spec.and_then(|spec| spec.restart_policy).as_deref() == Some("OnFailure")
    }

    /// Whether the template sets the scheduling group of its pods.
    pub fn sets_group(&self) -> bool {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            scheduling_group: Option<IgnoredAny>,
        }
        let spec: Option<Spec> = self.template.spec.parse().ok().flatten();
        spec.is_some_and(|spec| spec.scheduling_group.is_some())
    }

    /// The name of the PriorityClass of its pods.
    pub fn priority_class(&self) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            priority_class_name: Option<String>,
        }
        let spec: Option<Spec> = self.template.spec.parse().ok().flatten();
        let name = spec.and_then(|spec| spec.priority_class_name);
        name.filter(|name| !name.is_empty())
    }

    /// The controller that manages it, if it isn't this one.
    pub fn other_controller(&self) -> Option<&str> {
        other_controller(self.managed_by.as_deref())
    }

    /// Whether the job has completed or failed.
    pub fn is_finished(&self) -> bool {
        is_finished(&self.status.conditions)
    }
}

impl Presence {
    /// The controller that manages it, if it isn't this one.
    pub fn other_controller(&self) -> Option<&str> {
        other_controller(self.managed_by.as_deref())
    }

    /// Whether the job has completed or failed.
    pub fn is_finished(&self) -> bool {
        is_finished(&self.conditions)
    }
}

fn other_controller(managed_by: Option<&str>) -> Option<&str> {
    managed_by.filter(|&controller| controller != OURS)
}

fn is_finished(conditions: &[Condition]) -> bool {
    let holds =
        |condition_type| condition::get(conditions, condition_type).is_some_and(Condition::is_true);
    holds("Complete") || holds("Failed")
}
