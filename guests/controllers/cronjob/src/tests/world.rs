//! A cluster with one CronJob, `backup`, and builders for the tests' objects.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::CronJobController;

pub(super) const KEY: &str = "default/backup";
pub(super) const CRON_JOB: &str = "batch/v1/CronJob";
pub(super) const JOB: &str = "batch/v1/Job";
pub(super) const STATUS: &str = "update batch/v1/CronJob/status default/backup";

/// The name of the Job of noon.
pub(super) const NOON_JOB: &str = "backup-29454480";

/// A time of the tests' day, a Thursday: `12:00:00`.
pub(super) fn at(clock: &str) -> Time {
    format!("2026-01-01T{clock}Z").parse().unwrap()
}

pub(super) fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

/// This long, and the delta after a scheduled time.
pub(super) fn after(duration: Duration) -> Outcome {
    Outcome::RequeueAfter(duration + Duration::from_millis(100))
}

/// A builder for an object.
#[derive(Clone, Debug)]
pub(super) struct Object(pub(super) Value);

/// The CronJob `backup` with the API server's defaults, created at 11:59. It last ran at 11:00.
pub(super) fn cron_job(schedule: &str) -> Object {
    new_cron_job(schedule).with("/status/lastScheduleTime", at("11:00:00").to_string())
}

/// A CronJob `backup` that has never run.
pub(super) fn new_cron_job(schedule: &str) -> Object {
    Object(json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "backup", "namespace": "default", "uid": "uid-backup", "generation": 1,
                     "creationTimestamp": "2026-01-01T11:59:00Z"},
        "spec": {
            "schedule": schedule,
            "concurrencyPolicy": "Allow",
            "suspend": false,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}},
                "spec": {"parallelism": 1, "template": {"spec": {"containers": [{"name": "c", "image": "backup:1"}]}}},
            },
        },
        "status": {},
    }))
}

/// A running Job of `backup`, started at this time.
pub(super) fn job(name: &str, start: &str) -> Object {
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "backup", "uid": "uid-backup", "controller": true,
                       "blockOwnerDeletion": true});
    foreign_job(name)
        .with("/metadata/ownerReferences", json!([owner]))
        .with("/status/startTime", at(start).to_string())
}

/// A running Job without an owner.
pub(super) fn foreign_job(name: &str) -> Object {
    Object(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"parallelism": 1},
        "status": {},
    }))
}

/// An entry of `status.active`.
pub(super) fn reference(name: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": "default", "uid": format!("uid-{name}"),
           "resourceVersion": "1"})
}

impl Object {
    /// Sets the field at a JSON pointer and creates missing parents.
    pub(super) fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        set_at(&mut self.0, pointer, value);
        self
    }

    /// Sets a field of a CronJob's spec.
    pub(super) fn spec(self, field: &str, value: impl Into<Value>) -> Self {
        self.with(&format!("/spec/{field}"), value)
    }

    /// Lists Jobs as active in a CronJob's status.
    pub(super) fn active<const N: usize>(self, names: [&str; N]) -> Self {
        self.with("/status/active", names.map(reference).to_vec())
    }

    /// Makes a Job succeed at this time.
    pub(super) fn succeeded(self, time: &str) -> Self {
        self.with("/status/completionTime", at(time).to_string())
            .ended("Complete")
    }

    /// Makes a Job fail.
    pub(super) fn failed(self) -> Self {
        self.ended("Failed")
    }

    fn ended(self, condition: &str) -> Self {
        self.with(
            "/status/conditions",
            json!([{"type": condition, "status": "True"}]),
        )
    }
}

/// A cluster with these objects, at this time.
pub(super) struct World {
    pub(super) cluster: Cluster,
}

pub(super) fn world(now: Time, objects: impl IntoIterator<Item = Object>) -> World {
    let cluster = Cluster::with(objects.into_iter().map(|object| object.0));
    cluster.set_now(now);
    World { cluster }
}

impl World {
    pub(super) fn try_sync(&self) -> Result<Outcome, Error> {
        self.cluster.reconcile::<CronJobController>(KEY)
    }

    /// Reconciles once, which must succeed.
    pub(super) fn sync(&self) -> Outcome {
        self.try_sync().unwrap()
    }

    pub(super) fn status(&self) -> Value {
        self.cluster.object(CRON_JOB, "default", "backup").unwrap()["status"].take()
    }

    /// The names of the active Jobs in the status.
    pub(super) fn active(&self) -> Vec<String> {
        let status = self.status();
        let active = status["active"].as_array().into_iter().flatten();
        active
            .map(|job| job["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The names of all Jobs.
    pub(super) fn jobs(&self) -> Vec<String> {
        let name = |job: &Value| job["metadata"]["name"].as_str().unwrap().to_owned();
        self.cluster.objects(JOB).iter().map(name).collect()
    }

    pub(super) fn job(&self, name: &str) -> Value {
        self.cluster.object(JOB, "default", name).unwrap()
    }
}

/// The lines of a creation of the Job of noon and of the status after it.
pub(super) fn started() -> [String; 2] {
    [format!("create {JOB} default/{NOON_JOB}"), STATUS.into()]
}

pub(super) fn created() -> String {
    format!("Normal SuccessfulCreate Created job {NOON_JOB}")
}
