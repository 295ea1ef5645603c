//! The controller's metrics, with kube-controller-manager's names.
//!
//! Upstream: pkg/controller/job/metrics/metrics.go.
//! Upstream: pkg/controller/job/job_controller.go: recordJobFinished, recordJobPodFinished,
//! recordJobPodFailurePolicyActions, recordJobPodsCreationTotal.

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;

use crate::intervals::Intervals;
use crate::verdict::Verdict;
use crate::views::{Job, Status};

/// Duration of reconciles in seconds, measured with the host's clock.
pub const SYNC_DURATION: &str = "job_controller_job_sync_duration_seconds";
/// Number of reconciles.
pub const SYNCS: &str = "job_controller_job_syncs_total";
/// Number of finished jobs.
pub const FINISHED: &str = "job_controller_jobs_finished_total";
/// Number of jobs that another controller manages.
pub const BY_OTHERS: &str = "job_controller_jobs_by_external_controller_total";
/// Number of pods that ended and were counted.
pub const PODS_FINISHED: &str = "job_controller_job_pods_finished_total";
/// Number of failures handled by the pod failure policy.
pub const POLICY_ACTIONS: &str = "job_controller_pod_failures_handled_by_failure_policy_total";
/// Number of ended pods that gained the finalizer and that lost it.
pub const TRACKED: &str = "job_controller_terminated_pods_tracking_finalizer_total";
/// Number of indexes that succeeded or failed.
pub const INDEXES_FINISHED: &str = "job_controller_job_finished_indexes_total";
/// Number of pods created, by reason.
pub const CREATIONS: &str = "job_controller_job_pods_creation_total";

/// Declares the metrics. KCM's `stale_sync_skips_total` is missing: no reconcile is skipped,
/// because none sees a stale cache.
pub fn declare(description: Description) -> Description {
    const SYNC_LABELS: &[&str] = &["completion_mode", "result", "action"];
    let buckets = (0..15).map(|power| 0.004 * f64::from(1 << power)).collect();
    let counters: [(&str, &[&str], &str); 8] = [
        (SYNCS, SYNC_LABELS, "The number of job syncs"),
        (
            FINISHED,
            &["completion_mode", "result", "reason"],
            "The number of finished jobs",
        ),
        (
            BY_OTHERS,
            &["controller_name"],
            "The number of Jobs managed by an external controller",
        ),
        (
            PODS_FINISHED,
            &["completion_mode", "result"],
            "The number of finished Pods that are fully tracked",
        ),
        (
            POLICY_ACTIONS,
            &["action"],
            "The number of failed Pods handled by failure policy, by the rule's action",
        ),
        (
            TRACKED,
            &["event"],
            "The number of terminated pods (phase=Failed|Succeeded) that have the finalizer \
             batch.kubernetes.io/job-tracking. The event label can be \"add\" or \"delete\".",
        ),
        (
            INDEXES_FINISHED,
            &["status", "backoffLimit"],
            "The number of finished indexes",
        ),
        (
            CREATIONS,
            &["reason", "status"],
            "The number of Pods created by the Job controller, by the reason for it",
        ),
    ];
    let description = description.metric(
        MetricType::Histogram(buckets),
        SYNC_DURATION,
        SYNC_LABELS,
        "The time it took to sync a job",
    );
    counters
        .into_iter()
        .fold(description, |description, (name, labels, help)| {
            description.metric(MetricType::Counter, name, labels, help)
        })
}

/// Adds the difference between two written statuses to the counters.
pub fn count_pods(host: &Host, job: &Job, before: &Status, after: &Status) {
    let total = |text: &str| Intervals::parse(text, job.indexes()).total();
    let mut succeeded = i64::from(after.succeeded) - i64::from(before.succeeded);
    if job.is_indexed() {
        // The status counters can't be compared: they fall when a job's completions are reduced.
        succeeded = total(&after.completed_indexes) - total(&before.completed_indexes);
        let failures =
            |status: &Status| total(status.failed_indexes.as_deref().unwrap_or_default());
        let limit = if job.backoff_limit_per_index.is_some() {
            "perIndex"
        } else {
            "global"
        };
        add(host, INDEXES_FINISHED, &["succeeded", limit], succeeded);
        add(
            host,
            INDEXES_FINISHED,
            &["failed", limit],
            failures(after) - failures(before),
        );
    }
    add(host, PODS_FINISHED, &[job.mode(), "succeeded"], succeeded);
    add(
        host,
        PODS_FINISHED,
        &[job.mode(), "failed"],
        i64::from(after.failed) - i64::from(before.failed),
    );
}

/// Counts a finished job.
pub fn count_finished(host: &Host, job: &Job, verdict: &Verdict) {
    let result = if verdict.is_success {
        "succeeded"
    } else {
        "failed"
    };
    add(host, FINISHED, &[job.mode(), result, &verdict.reason], 1);
}

/// Counts pods that were created, and creations that failed.
pub fn count_creations(host: &Host, job: &Job, replaces: Replaces, created: usize, failed: usize) {
    let reason = match replaces {
        Replaces { failed: true, .. } if job.pod_replacement_policy == "Failed" => {
            "recreate_failed"
        }
        Replaces {
            failed: false,
            terminating: false,
        } => "new",
        _ => "recreate_terminating_or_failed",
    };
    add(host, CREATIONS, &[reason, "succeeded"], created as i64);
    add(host, CREATIONS, &[reason, "failed"], failed as i64);
}

/// The job's failed and terminating pods at the time of a creation, which determine its reason.
#[derive(Clone, Copy, Debug)]
pub struct Replaces {
    pub failed: bool,
    pub terminating: bool,
}

fn add(host: &Host, metric: &str, labels: &[&str], count: i64) {
    if count > 0 {
        host.metrics().add(metric, labels, count as f64);
    }
}
