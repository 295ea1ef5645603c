//! Counts the pods of a Job.
//!
//! Upstream: pkg/controller/job/job_controller.go: countReadyPods, getValidPodsWithFilter, newUncountedTerminatedPods.

use std::collections::HashSet;

use crate::failure_policy;
use crate::views::{Job, Pod};

/// Numbers of a job's pods, including ended pods that its status does not count yet.
#[derive(Debug, Default)]
pub struct Tally<'p> {
    /// Pods that have not ended and are not being deleted.
    pub active: Vec<&'p Pod>,
    /// Number of pods that are being deleted and have not ended.
    pub terminating: usize,
    /// Pods that have succeeded since the status was written.
    pub new_succeeded: Vec<&'p Pod>,
    /// Pods that have failed since the status was written.
    pub new_failed: Vec<&'p Pod>,
    /// Number of all succeeded pods.
    pub succeeded: i64,
    /// Number of all failed pods.
    pub failed: i64,
}

impl<'p> Tally<'p> {
    pub fn of(job: &Job, pods: &'p [Pod]) -> Self {
        let status = &job.status;
        let uncounted = &status.uncounted_terminated_pods;
        let [known_succeeded, known_failed] = [&uncounted.succeeded, &uncounted.failed]
            .map(|uids| uids.iter().map(String::as_str).collect());
        let new = |pod: &Pod, known: &HashSet<&str>| {
            pod.has_finalizer()
                && !known.contains(pod.meta.uid.as_str())
                && (!job.is_indexed() || pod.index_in(job).is_some())
        };
        let new_succeeded: Vec<&Pod> = pods
            .iter()
            .filter(|pod| pod.has_succeeded() && new(pod, &known_succeeded))
            .collect();
        let new_failed: Vec<&Pod> = pods
            .iter()
            .filter(|pod| pod.has_failed(job) && new(pod, &known_failed))
            .collect();
        let policy = job.pod_failure_policy.as_ref();
        let failures = new_failed
            .iter()
            .filter(|pod| failure_policy::is_counted(policy, pod))
            .count();
        Self {
            active: pods.iter().filter(|pod| pod.is_active()).collect(),
            terminating: pods.iter().filter(|pod| pod.is_terminating()).count(),
            succeeded: i64::from(status.succeeded)
                + (new_succeeded.len() + uncounted.succeeded.len()) as i64,
            failed: i64::from(status.failed) + (failures + uncounted.failed.len()) as i64,
            new_succeeded,
            new_failed,
        }
    }

    /// Number of active pods that are ready.
    pub fn ready(&self) -> usize {
        self.active.iter().filter(|pod| pod.is_ready()).count()
    }
}
