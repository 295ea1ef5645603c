//! What a pod is to a Job: whether it counts, whether it has failed, when it ended, which index it
//! is for.

use std::time::Duration;

use flyball_sdk::Time;
use flyball_sdk::pod::{has_ended, is_sidecar};

use crate::views::{Container, Job, Pod, PodCondition};

/// The finalizer that keeps a pod until it is counted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation, and the label, that says which index a pod is for.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation that says how often pods of this index failed before this one.
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation that says how often they failed in a way that is ignored.
pub const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

impl Pod {
    /// Whether it has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        !self.has_ended() && !self.meta.is_deleting()
    }

    /// Whether it is being deleted and has not yet ended.
    pub fn is_terminating(&self) -> bool {
        !self.has_ended() && self.meta.is_deleting()
    }

    /// Whether it succeeded.
    pub fn has_succeeded(&self) -> bool {
        self.phase == "Succeeded"
    }

    /// Whether it is a failure of this job. A pod that is being deleted is one, because it may
    /// never come to say so itself; unless the job waits for that.
    pub fn has_failed(&self, job: &Job) -> bool {
        self.phase == "Failed"
            || !job.replaces_only_ended() && self.meta.is_deleting() && !self.has_succeeded()
    }

    fn has_ended(&self) -> bool {
        has_ended(&self.phase)
    }

    /// Whether it waits to be counted.
    pub fn is_held(&self) -> bool {
        is_held(&self.meta.finalizers)
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.readiness().is_some_and(|ready| ready.status == "True")
    }

    /// Since when it is ready; none if it isn't, or if that is not said.
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

    /// The index that it is for; none if that isn't said, or not as a number.
    pub fn index(&self) -> Option<i64> {
        self.meta
            .annotation(INDEX)?
            .parse()
            .ok()
            .filter(|index| *index >= 0)
    }

    /// The index that it is for, if the job has that index. An index can lie beyond: a job may be
    /// made smaller.
    pub fn index_in(&self, job: &Job) -> Option<i64> {
        self.index().filter(|index| *index < job.indexes())
    }

    /// How often pods of its index failed before it; what is no number is 0.
    pub fn earlier_failures(&self) -> i32 {
        self.count(FAILURES)
    }

    /// How often they failed in a way that is ignored.
    pub fn earlier_ignored_failures(&self) -> i32 {
        self.count(IGNORED_FAILURES)
    }

    /// How often they failed in whatever way.
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

    /// When it ended, as far as can be said: when its last container did; else when it ceased to be
    /// ready; else when it was asked to go; else when it was made.
    pub fn finished_at(&self) -> Time {
        let asked_to_go = || {
            let grace = self
                .meta
                .deletion_grace_period_seconds
                .unwrap_or(0)
                .max(0)
                .unsigned_abs();
            self.meta
                .deletion_timestamp
                .map(|gone| gone - Duration::from_secs(grace))
        };
        let not_ready = || {
            self.readiness()
                .filter(|ready| ready.status == "False")?
                .last_transition_time
        };
        let made = || self.meta.creation_timestamp.unwrap_or_default();
        self.containers_finished_at()
            .or_else(not_ready)
            .or_else(asked_to_go)
            .unwrap_or_else(made)
    }

    /// When the last container ended, which can be a sidecar. None while a sidecar runs.
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

    /// Those of its init containers that run beside its containers.
    pub fn sidecars(&self) -> impl Iterator<Item = &Container> {
        self.init_containers
            .iter()
            .filter(|container| is_sidecar(&self.init_specs, &container.name))
    }

    /// How often its containers were restarted, all together.
    pub fn restarts(&self) -> i32 {
        let counts = self
            .init_containers
            .iter()
            .chain(&self.containers)
            .map(|container| container.restart_count);
        counts.fold(0, i32::saturating_add)
    }
}

/// Whether the finalizer is among these.
pub fn is_held(finalizers: &[String]) -> bool {
    finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}
