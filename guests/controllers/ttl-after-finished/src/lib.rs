//! ttl-after-finished-controller: deletes finished Jobs once their time to live has expired (KEP-592).
//!
//! A Job with `ttlSecondsAfterFinished` is deleted that many seconds after it has completed or failed,
//! together with its pods. Until then its key waits in the queue.
//!
//! Upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go: New, addJob, updateJob, processJob,
//! processTTL, needsCleanup, getFinishAndExpireTime, timeLeft, jobFinishTime.
//! Upstream: pkg/controller/ttlafterfinished/metrics/metrics.go.

use std::time::Duration;

use flyball_sdk::describe::MetricType;
use flyball_sdk::info;
use flyball_sdk::prelude::*;

/// The histogram of the time between the expiry of a Job and its deletion, in seconds.
const DURATION: &str = "ttl_after_finished_controller_job_deletion_duration_seconds";

/// The conditions of a finished Job.
const FINISHED: [&str; 2] = ["Complete", "Failed"];

#[derive(View, Clone, Debug, Default)]
#[view(kind = "batch/v1/Job")]
struct Job {
    #[view(path = "metadata", fields("deletionTimestamp"))]
    meta: Meta,
    #[view(path = "spec.ttlSecondsAfterFinished")]
    ttl_seconds: Option<u64>,
    #[view(
        path = "status.conditions",
        fields("[*].type", "[*].status", "[*].lastTransitionTime")
    )]
    conditions: Vec<Condition>,
}

impl Job {
    /// The time to live.
    fn ttl(&self) -> Option<Duration> {
        self.ttl_seconds.map(Duration::from_secs)
    }
}

/// When a Job is to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    /// The Job is not finished, has no time to live, or is being deleted.
    Never,
    /// The Job is to be deleted after this time.
    In(Duration),
    /// The deletion has been due since this time.
    Since(Time),
}

/// The controller. Keys name Jobs.
pub struct TtlAfterFinished;

export!(TtlAfterFinished);

impl Controller for TtlAfterFinished {
    fn describe() -> Description {
        // Only finished Jobs are enqueued. A mapping tests one value, so each condition has its own.
        let jobs = FINISHED.iter().fold(
            watch::<Job>().when_at(&["spec.ttlSecondsAfterFinished", "status.conditions"]),
            |jobs, finished| {
                let status = format!("status.conditions[type={finished}].status");
                jobs.enqueue(
                    Mapping::itself()
                        .on([DeltaType::Added, DeltaType::Modified])
                        .having(&status, "True"),
                )
            },
        );
        describe("ttl-after-finished-controller", env!("CARGO_PKG_VERSION"))
            .watch(jobs)
            .queue("ttl_jobs_to_delete")
            .permission(Job::KIND, ["delete", "get"])
            .metric(
                MetricType::Histogram((0..14).map(|power| 0.1 * f64::from(1 << power)).collect()),
                DURATION,
                &[],
                "The time it took to delete the job since it became eligible for deletion",
            )
            .concurrency(5)
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let Some(cached) = host.get_by_key::<Job>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        match expiry(host, &cached)? {
            Expiry::Never => return Ok(Outcome::Done),
            Expiry::In(rest) => return Ok(Outcome::RequeueAfter(rest)),
            Expiry::Since(_) => {}
        }
        // The time to live may have been changed, and the Job may have been replaced by another one.
        let key = &request.key;
        let Some(live) = host.live().get::<Job>(&key.namespace, &key.name)? else {
            return Ok(Outcome::Done);
        };
        match expiry(host, &live)? {
            Expiry::Never => Ok(Outcome::Done),
            Expiry::In(rest) => Ok(Outcome::RequeueAfter(rest)),
            Expiry::Since(time) => delete(host, &live, time),
        }
    }
}

/// Deletes a Job after its pods.
fn delete(host: &Host, job: &Job, due: Time) -> Result<Outcome, Error> {
    let delete = Write::delete_exactly(Job::KIND, &job.meta).propagation(Propagation::Foreground);
    if host.write(delete).found()?.is_some() {
        let late = host.now().since(due);
        host.metrics().observe(DURATION, &[], late.as_secs_f64());
    }
    Ok(Outcome::Done)
}

/// Returns when a Job is to be deleted. Logs if its finish time is in the future.
fn expiry(host: &Host, job: &Job) -> Result<Expiry, Error> {
    let expiry = expiry_at(job, host.now())?;
    if let (Expiry::In(rest), Some(ttl)) = (expiry, job.ttl())
        && rest > ttl
    {
        info!(
            host,
            "job {} finished in the future, probably because clocks differ: it is deleted later",
            job.meta.key()
        );
    }
    Ok(expiry)
}

fn expiry_at(job: &Job, now: Time) -> Result<Expiry, Error> {
    let (Some(ttl), false) = (job.ttl(), job.meta.is_deleting()) else {
        return Ok(Expiry::Never);
    };
    let Some(finished) = finish_time(job)? else {
        return Ok(Expiry::Never);
    };
    let due = finished + ttl;
    Ok(match due.from_now(now) {
        Duration::ZERO => Expiry::Since(due),
        rest => Expiry::In(rest),
    })
}

/// Returns when a Job finished; `None` if it is not finished.
fn finish_time(job: &Job) -> Result<Option<Time>, Error> {
    let mut conditions = job.conditions.iter();
    let finished = conditions.find(|condition| {
        FINISHED.contains(&condition.condition_type.as_str()) && condition.is_true()
    });
    let Some(condition) = finished else {
        return Ok(None);
    };
    let time = condition.last_transition_time.ok_or_else(|| {
        Error::failed(format!(
            "unable to find the time when the Job {} finished",
            job.meta.key()
        ))
    })?;
    Ok(Some(time))
}
