//! Properties of a pod that matter to a Job: whether it is active, whether it has failed, when it
//! ended and its index.
//!
//! Upstream: pkg/controller/job/job_controller.go: isPodFailed.
//! Upstream: pkg/controller/job/tracking_utils.go: hasJobTrackingFinalizer.
//! Upstream: pkg/controller/job/backoff_utils.go: getFinishedTime, getFinishTimeFromContainers, latestFinishTime,
//! getFinishTimeFromPodReadyFalseCondition, getFinishTimeFromDeletionTimestamp.
//! Upstream: pkg/controller/job/indexed_job_utils.go: getCompletionIndex, getIndexFailureCount,
//! getIndexAbsoluteFailureCount, parseIndexFailureCountAnnotation, parseIndexFailureIgnoreCountAnnotation.

use std::time::Duration;

use flyball_pods::{has_ended, is_sidecar};
use flyball_sdk::Time;

use crate::views::{Container, Job, Pod, PodCondition};

/// The finalizer that keeps a pod until it is counted in the job's status.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label that hold a pod's index.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation with the number of earlier failures of the pod's index.
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the number of earlier failures of the index that the failure policy ignored.
pub const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

impl Pod {
    /// Whether the pod has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        !self.has_ended() && !self.meta.is_deleting()
    }

    /// Whether the pod is being deleted and has not yet ended.
    pub fn is_terminating(&self) -> bool {
        !self.has_ended() && self.meta.is_deleting()
    }

    pub fn has_succeeded(&self) -> bool {
        self.phase == "Succeeded"
    }

    /// Whether the job counts this pod as failed. A pod that is being deleted counts as failed,
    /// because its phase may never become `Failed`; unless the job replaces only pods that have
    /// ended.
    pub fn has_failed(&self, job: &Job) -> bool {
        self.phase == "Failed"
            || !job.replaces_only_ended() && self.meta.is_deleting() && !self.has_succeeded()
    }

    fn has_ended(&self) -> bool {
        has_ended(&self.phase)
    }

    /// Whether the pod has the finalizer, so that it is not fully counted yet.
    pub fn has_finalizer(&self) -> bool {
        has_finalizer(&self.meta.finalizers)
    }

    pub fn is_ready(&self) -> bool {
        self.readiness().is_some_and(|ready| ready.status == "True")
    }

    /// When the pod became ready; `None` if it isn't ready or the condition has no time.
    pub fn ready_since(&self) -> Option<Time> {
        self.readiness()
            .filter(|ready| ready.status == "True")?
            .last_transition_time
    }

    fn readiness(&self) -> Option<&PodCondition> {
        self.conditions
            .iter()
            .find(|condition| condition.condition_type == "Ready")
    }

    /// The index; `None` if the annotation is absent, negative or not a number.
    pub fn index(&self) -> Option<i64> {
        self.meta
            .annotation(INDEX)?
            .parse()
            .ok()
            .filter(|index| *index >= 0)
    }

    /// The index, if the job still has it: an index can be out of range after the completions were
    /// reduced.
    pub fn index_in(&self, job: &Job) -> Option<i64> {
        self.index().filter(|index| *index < job.indexes())
    }

    /// Number of earlier failures of the index that count. A malformed annotation reads as 0.
    pub fn earlier_failures(&self) -> i32 {
        self.count(FAILURES)
    }

    /// Number of earlier failures of the index that were ignored.
    pub fn earlier_ignored_failures(&self) -> i32 {
        self.count(IGNORED_FAILURES)
    }

    /// Number of all earlier failures of the index.
    pub fn all_earlier_failures(&self) -> i32 {
        self.earlier_failures()
            .saturating_add(self.earlier_ignored_failures())
    }

    fn count(&self, annotation: &str) -> i32 {
        self.meta
            .annotation(annotation)
            .and_then(|count| count.parse().ok())
            .filter(|count| *count >= 0)
            .unwrap_or(0)
    }

    /// When the pod ended, from the first of these that is known: the end of its last container,
    /// the time it became unready, the time its deletion was requested, its creation.
    pub fn finished_at(&self) -> Time {
        let deletion_requested = || {
            let grace = self
                .meta
                .deletion_grace_period_seconds
                .unwrap_or(0)
                .max(0)
                .unsigned_abs();
            self.meta
                .deletion_timestamp
                .map(|deadline| deadline - Duration::from_secs(grace))
        };
        let not_ready = || {
            self.readiness()
                .filter(|ready| ready.status == "False")?
                .last_transition_time
        };
        let created = || self.meta.creation_timestamp.unwrap_or_default();
        self.containers_finished_at()
            .or_else(not_ready)
            .or_else(deletion_requested)
            .unwrap_or_else(created)
    }

    /// When the last container ended, sidecars included. `None` while a sidecar runs.
    fn containers_finished_at(&self) -> Option<Time> {
        let ends = |containers: &mut dyn Iterator<Item = &Container>| -> Option<Vec<Time>> {
            containers
                .map(|container| container.state.terminated.as_ref()?.finished_at)
                .collect()
        };
        let own = ends(&mut self.containers.iter()).and_then(|ends| ends.into_iter().max());
        let sidecars = ends(&mut self.sidecars())?;
        own.into_iter().chain(sidecars).max()
    }

    /// The statuses of the init containers that are sidecars.
    pub fn sidecars(&self) -> impl Iterator<Item = &Container> {
        self.init_containers
            .iter()
            .filter(|container| is_sidecar(&self.init_specs, &container.name))
    }

    /// Sum of the restarts of all containers.
    pub fn restarts(&self) -> i32 {
        let counts = self
            .init_containers
            .iter()
            .chain(&self.containers)
            .map(|container| container.restart_count);
        counts.fold(0, i32::saturating_add)
    }
}

/// Whether the job-tracking finalizer is among these.
pub fn has_finalizer(finalizers: &[String]) -> bool {
    finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}
