//! A cluster with one Job, `work`, and builders for the tests' objects.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, set_at};

use crate::JobController;
use crate::pods::{FINALIZER, INDEX};
use crate::views::{Job, Pod};

pub(super) const KEY: &str = "default/work";
pub(super) const JOB: &str = "batch/v1/Job";
pub(super) const POD: &str = "v1/Pod";
pub(super) const STATUS: &str = "update batch/v1/Job/status default/work";

/// The tests' current time: noon of a day.
pub(super) const NOON: Time = Time {
    seconds: 1_767_268_800,
    nanoseconds: 0,
};

/// The time this many seconds before noon.
pub(super) fn ago(seconds: i64) -> String {
    time(-seconds).to_string()
}

/// This many seconds after noon.
pub(super) fn time(seconds: i64) -> Time {
    Time::of_seconds(NOON.seconds + seconds)
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A builder for an object.
#[derive(Clone, Debug)]
pub(super) struct Object(pub(super) Value);

/// The Job `work` with the API server's defaults.
pub(super) fn job(parallelism: i32, completions: impl Into<Option<i32>>) -> Object {
    let job = Object(json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "work", "namespace": "default", "uid": "uid-work", "generation": 1},
        "spec": {
            "parallelism": parallelism,
            "completionMode": "NonIndexed",
            "backoffLimit": 6,
            "suspend": false,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"job": "work"}},
            "template": {
                "metadata": {"labels": {"job": "work"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "work:1"}]},
            },
        },
        "status": {},
    }));
    match completions.into() {
        Some(completions) => job.with("/spec/completions", completions),
        None => job,
    }
}

/// An Indexed Job `work`.
pub(super) fn indexed(parallelism: i32, completions: i32) -> Object {
    job(parallelism, completions).with("/spec/completionMode", "Indexed")
}

/// An Indexed Job `work` with a backoff limit per index.
pub(super) fn limited(parallelism: i32, completions: i32, limit: i32) -> Object {
    indexed(parallelism, completions)
        .with("/spec/backoffLimitPerIndex", limit)
        .with("/spec/backoffLimit", i32::MAX)
}

/// A running pod of `work` with a node and the finalizer.
pub(super) fn pod(name: &str) -> Object {
    orphan(name).owned_by("uid-work").with_finalizer()
}

/// A running pod of an index of `work`.
pub(super) fn pod_of(name: &str, index: impl ToString) -> Object {
    pod(name).annotated(INDEX, index)
}

/// A running pod that matches `work`'s selector, without owner and finalizer.
pub(super) fn orphan(name: &str) -> Object {
    Object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"job": "work"},
            "creationTimestamp": ago(1000),
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "work:1"}]},
        "status": {"phase": "Running"},
    }))
}

impl Object {
    /// Sets the field at a JSON pointer and creates missing parents.
    pub(super) fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        set_at(&mut self.0, pointer, value);
        self
    }

    pub(super) fn annotated(self, key: &str, value: impl ToString) -> Self {
        self.with(
            &format!("/metadata/annotations/{}", key.replace('/', "~1")),
            value.to_string(),
        )
    }

    pub(super) fn owned_by(self, uid: &str) -> Self {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": uid, "controller": true,
                           "blockOwnerDeletion": true});
        self.with("/metadata/ownerReferences", json!([owner]))
    }

    pub(super) fn with_finalizer(self) -> Self {
        self.with("/metadata/finalizers", json!([FINALIZER]))
    }

    /// Removes the finalizer.
    pub(super) fn without_finalizer(self) -> Self {
        self.with("/metadata/finalizers", json!([]))
    }

    pub(super) fn phase(self, phase: &str) -> Self {
        self.with("/status/phase", phase)
    }

    pub(super) fn succeeded(self) -> Self {
        self.phase("Succeeded").exited(0, 0)
    }

    /// Failed this many seconds ago.
    pub(super) fn failed(self, seconds_ago: i64) -> Self {
        self.phase("Failed").exited(1, seconds_ago)
    }

    /// Its container exited with this code, this many seconds ago.
    pub(super) fn exited(self, code: i32, seconds_ago: i64) -> Self {
        let state = json!({"terminated": {"exitCode": code, "finishedAt": ago(seconds_ago)}});
        self.with(
            "/status/containerStatuses",
            json!([{"name": "c", "restartCount": 0, "state": state}]),
        )
    }

    /// The pod has been ready for this many seconds.
    pub(super) fn ready(self, seconds: i64) -> Self {
        self.with(
            "/status/conditions",
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}]),
        )
    }

    /// Adds a condition with status `True`.
    pub(super) fn condition(self, condition_type: &str) -> Self {
        self.with(
            "/status/conditions",
            json!([{"type": condition_type, "status": "True"}]),
        )
    }

    /// The pod has been terminating for this many seconds, with a grace period of 30 s.
    pub(super) fn deleting(self, seconds: i64) -> Self {
        self.with("/metadata/deletionTimestamp", ago(seconds - 30))
            .with("/metadata/deletionGracePeriodSeconds", 30)
    }

    pub(super) fn job(&self) -> Job {
        serde_json::from_value(self.0.clone()).unwrap()
    }

    pub(super) fn pod(&self) -> Pod {
        serde_json::from_value(self.0.clone()).unwrap()
    }
}

pub(super) fn pods(objects: impl IntoIterator<Item = Object>) -> Vec<Pod> {
    objects.into_iter().map(|object| object.pod()).collect()
}

pub(super) fn names<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<&'a str> {
    pods.into_iter().map(|pod| pod.meta.name.as_str()).collect()
}

/// An API error.
pub(super) fn refusal(status: u16, reason: &str, message: &str) -> ApiError {
    ApiError::of_server(status, reason, message)
}

/// Number of lines that begin with `prefix`.
pub(super) fn count(lines: &[String], prefix: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(prefix)).count()
}

/// The cluster with the Job.
pub(super) struct World {
    pub(super) cluster: Cluster,
}

impl World {
    pub(super) fn of(objects: impl IntoIterator<Item = Object>) -> Self {
        let cluster = Cluster::with(objects.into_iter().map(|object| object.0));
        cluster.set_now(NOON);
        Self { cluster }
    }

    pub(super) fn try_sync(&self) -> Result<Outcome, String> {
        self.cluster
            .reconcile::<JobController>(KEY)
            .map_err(|error| error.to_string())
    }

    /// Reconciles once, which must succeed. Returns the writes as lines.
    pub(super) fn sync(&self) -> Vec<String> {
        self.try_sync().unwrap();
        self.cluster.written()
    }

    /// Reconciles until nothing is written any more; panics if that takes too long.
    pub(super) fn settle(&self) {
        for _ in 0..6 {
            if self.sync().is_empty() {
                return;
            }
        }
        panic!("the job does not settle");
    }

    pub(super) fn job(&self) -> Value {
        self.cluster.object(JOB, "default", "work").unwrap()
    }

    pub(super) fn status(&self) -> Value {
        self.job()["status"].take()
    }

    /// Numbers of active, terminating, succeeded and failed pods.
    pub(super) fn counts(&self) -> [i64; 4] {
        let status = self.status();
        ["active", "terminating", "succeeded", "failed"]
            .map(|count| status[count].as_i64().unwrap_or(-1))
    }

    /// The true conditions, each with its reason.
    pub(super) fn conditions(&self) -> Vec<String> {
        let status = self.status();
        let all = status["conditions"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        { all.filter(|one| one["status"] == "True") }
            .map(|one| format!("{} {}", text(&one["type"]), text(&one["reason"])))
            .collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or("").to_owned();
        self.cluster.objects(POD).iter().map(name).collect()
    }

    pub(super) fn pod(&self, name: &str) -> Value {
        self.cluster.object(POD, "default", name).unwrap()
    }

    /// Whether a pod has the finalizer; false if the pod is deleted.
    pub(super) fn has_finalizer(&self, name: &str) -> bool {
        let pod = self.cluster.object(POD, "default", name);
        pod.is_some_and(|pod| {
            pod["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|all| all.contains(&json!(FINALIZER)))
        })
    }

    pub(super) fn edit_job(&self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(JOB, "default", "work", change);
    }

    pub(super) fn edit_pod(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(POD, "default", name, change);
    }

    /// Ends a pod now.
    pub(super) fn end(&self, name: &str, phase: &str) {
        let now = self.cluster.host().now().to_string();
        let code = i32::from(phase == "Failed");
        self.edit_pod(name, |pod| {
            pod["status"]["phase"] = phase.into();
            let state = json!({"terminated": {"exitCode": code, "finishedAt": now}});
            pod["status"]["containerStatuses"] =
                json!([{"name": "c", "restartCount": 0, "state": state}]);
        });
    }

    /// Deletes every terminating pod that has no finalizer, as its kubelet would.
    pub(super) fn reap(&self) {
        for pod in self.cluster.objects(POD) {
            let is_free = pod["metadata"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty);
            if is_free && !pod["metadata"]["deletionTimestamp"].is_null() {
                self.cluster
                    .remove(POD, "default", pod["metadata"]["name"].as_str().unwrap());
            }
        }
    }

    /// The metrics since the last call, without durations, as sorted lines of name, labels and sum.
    pub(super) fn metrics(&self) -> Vec<String> {
        let mut sums = std::collections::BTreeMap::new();
        for (_, name, labels, value) in self.cluster.metrics() {
            if !name.ends_with("_seconds") {
                let name = name
                    .strip_prefix("job_controller_")
                    .expect("a metric of another controller")
                    .to_owned();
                *sums.entry((name, labels.join(","))).or_insert(0.0) += value;
            }
        }
        sums.into_iter()
            .map(|((name, labels), sum)| format!("{name} {labels} {sum}"))
            .collect()
    }
}
