//! The workloads that are handed over, and what they look like at each stage.
//!
//! Rollouts stall at known points under any controller, because their new pods become ready only when the test releases
//! them. Pods of Jobs run until the test ends them, and deleted objects are held by finalizers that the test removes.

use flyball_differential::api;
use serde_json::{Value, json};

/// The namespace of the workloads.
pub(crate) const NAMESPACE: &str = "takeover";
/// A finalizer of the test.
pub(crate) const HOLD: &str = "example.com/hold";
/// The prefix of the fake kubelet's annotations.
const KUBELET: &str = "fake-kubelet.flyball.dev";

/// An object: its kind and name.
pub(crate) type Which = (&'static str, &'static str);
/// Numbers in the status of an object. A missing number is 0.
pub(crate) type Numbers = (Which, &'static [(&'static str, u64)]);

/// All objects, as they are created.
pub(crate) fn objects() -> Vec<Value> {
    let with = |mut object: Value, spec: Value| {
        flyball_cluster_tests::merge(&mut object["spec"], spec);
        object
    };
    let hold = json!({"template": {"metadata": {"finalizers": [HOLD]}}});
    let annotated = |name: &str, value: &str| json!({"template": {"metadata": {"annotations": {format!("{KUBELET}/{name}"): value}}}});
    let rolling = |unavailable: Value, surge: Value| json!({"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
    vec![
        // Nothing happens to these.
        workload("Deployment", "rolled-out", 3),
        workload("Deployment", "plain", 2),
        workload("Deployment", "paused", 2),
        with(
            workload("Deployment", "restarted", 1),
            annotated("restarts", "1"),
        ),
        workload("StatefulSet", "updated-set", 3),
        with(
            workload("StatefulSet", "parallel-set", 3),
            json!({"podManagementPolicy": "Parallel"}),
        ),
        with(
            workload("StatefulSet", "on-delete-set", 2),
            json!({"updateStrategy": {"type": "OnDelete"}}),
        ),
        workload("DaemonSet", "updated-daemons", 3),
        with(
            workload("DaemonSet", "on-delete-daemons", 3),
            json!({"updateStrategy": {"type": "OnDelete"}}),
        ),
        workload("ReplicaSet", "replica-set", 2),
        workload("ReplicationController", "controller", 2),
        job(
            "complete",
            1,
            1,
            "NonIndexed",
            &json!({format!("{KUBELET}/exit-after"): "0s"}),
        ),
        with(
            job("suspended", 1, 1, "NonIndexed", &json!({})),
            json!({"suspend": true}),
        ),
        cron_job("suspended-cron"),
        cron_job("cron"),
        budget("numbered", "rolled-out", json!({"minAvailable": 2})),
        budget("percent", "updated-set", json!({"maxUnavailable": "40%"})),
        quota(
            QUOTAS[0],
            json!({"count/jobs.batch": "50", "count/statefulsets.apps": "50"}),
        ),
        quota(
            QUOTAS[1],
            json!({"persistentvolumeclaims": "10", "requests.storage": "100Gi"}),
        ),
        // Workloads that roll out.
        workload("Deployment", "rolling", 4),
        with(
            workload("Deployment", "surging", 3),
            json!({"strategy": rolling(json!(0), json!(2))}),
        ),
        with(
            workload("Deployment", "recreated", 2),
            json!({"strategy": {"type": "Recreate"}}),
        ),
        workload("StatefulSet", "rolling-set", 3),
        with(
            workload("StatefulSet", "partitioned-set", 3),
            json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}),
        ),
        workload("DaemonSet", "rolling-daemons", 3),
        with(
            workload("DaemonSet", "surging-daemons", 3),
            json!({"updateStrategy": rolling(json!(0), json!(1))}),
        ),
        // Workloads that keep running.
        job("work", 4, 2, "NonIndexed", &json!({})),
        job("indexed", 3, 3, "Indexed", &json!({})),
        job("failing", 1, 1, "NonIndexed", &json!({})),
        // Workloads that are deleted, wholly or in part.
        with(workload("Deployment", "leaving", 2), hold),
        workload("ReplicaSet", "losing", 2),
        workload("StatefulSet", "losing-set", 2),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "used"},
            "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": {
            "nodeName": "node-0", "containers": [{"name": "app", "image": "app:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "used"}}]}}),
    ]
}

/// The controllers' state when the objects exist and their pods run.
pub(crate) const CREATED: &[Numbers] = &[
    (
        ("Deployment", "rolled-out"),
        &[("readyReplicas", 3), ("availableReplicas", 3)],
    ),
    (("Deployment", "plain"), &[("availableReplicas", 2)]),
    (("Deployment", "paused"), &[("availableReplicas", 2)]),
    (("Deployment", "restarted"), &[("availableReplicas", 1)]),
    (("StatefulSet", "updated-set"), &[("availableReplicas", 3)]),
    (("StatefulSet", "parallel-set"), &[("availableReplicas", 3)]),
    (
        ("StatefulSet", "on-delete-set"),
        &[("availableReplicas", 2)],
    ),
    (("DaemonSet", "updated-daemons"), &[("numberAvailable", 3)]),
    (
        ("DaemonSet", "on-delete-daemons"),
        &[("numberAvailable", 3)],
    ),
    (("ReplicaSet", "replica-set"), &[("availableReplicas", 2)]),
    (
        ("ReplicationController", "controller"),
        &[("availableReplicas", 2)],
    ),
    (("Job", "complete"), &[("succeeded", 1)]),
    (
        ("PodDisruptionBudget", "numbered"),
        &[("disruptionsAllowed", 1)],
    ),
    (
        ("PodDisruptionBudget", "percent"),
        &[("disruptionsAllowed", 2)],
    ),
    (("Deployment", "rolling"), &[("availableReplicas", 4)]),
    (("Deployment", "surging"), &[("availableReplicas", 3)]),
    (("Deployment", "recreated"), &[("availableReplicas", 2)]),
    (("StatefulSet", "rolling-set"), &[("availableReplicas", 3)]),
    (
        ("StatefulSet", "partitioned-set"),
        &[("availableReplicas", 3)],
    ),
    (("DaemonSet", "rolling-daemons"), &[("numberAvailable", 3)]),
    (("DaemonSet", "surging-daemons"), &[("numberAvailable", 3)]),
    (("Job", "work"), &[("active", 2), ("ready", 2)]),
    (("Job", "indexed"), &[("active", 3), ("ready", 3)]),
    (("Job", "failing"), &[("active", 1), ("ready", 1)]),
    (("Deployment", "leaving"), &[("availableReplicas", 2)]),
    (("ReplicaSet", "losing"), &[("availableReplicas", 2)]),
    (("StatefulSet", "losing-set"), &[("availableReplicas", 2)]),
];

/// Changes of the template after the creation. The new pods of the workloads in [`ROLLOUTS`] become
/// ready only when they are released.
pub(crate) const CHANGED: [Which; 5] = [
    ("Deployment", "rolled-out"),
    ("StatefulSet", "updated-set"),
    ("StatefulSet", "on-delete-set"),
    ("DaemonSet", "updated-daemons"),
    ("DaemonSet", "on-delete-daemons"),
];

/// The workloads whose rollouts stall.
pub(crate) const ROLLOUTS: [Which; 7] = [
    ("Deployment", "rolling"),
    ("Deployment", "surging"),
    ("Deployment", "recreated"),
    ("StatefulSet", "rolling-set"),
    ("StatefulSet", "partitioned-set"),
    ("DaemonSet", "rolling-daemons"),
    ("DaemonSet", "surging-daemons"),
];

/// The state when stock hands over.
pub(crate) const FIRST_STALL: &[Numbers] = &[
    (
        ("Deployment", "paused"),
        &[("updatedReplicas", 0), ("availableReplicas", 2)],
    ),
    (
        ("Deployment", "rolled-out"),
        &[
            ("updatedReplicas", 3),
            ("replicas", 3),
            ("availableReplicas", 3),
        ],
    ),
    (
        ("StatefulSet", "updated-set"),
        &[("updatedReplicas", 3), ("availableReplicas", 3)],
    ),
    (
        ("StatefulSet", "on-delete-set"),
        &[("updatedReplicas", 0), ("availableReplicas", 2)],
    ),
    (
        ("DaemonSet", "updated-daemons"),
        &[("updatedNumberScheduled", 3), ("numberAvailable", 3)],
    ),
    (
        ("DaemonSet", "on-delete-daemons"),
        &[("updatedNumberScheduled", 0), ("numberAvailable", 3)],
    ),
    (
        ("Deployment", "rolling"),
        &[
            ("updatedReplicas", 2),
            ("replicas", 5),
            ("availableReplicas", 3),
        ],
    ),
    (
        ("Deployment", "surging"),
        &[
            ("updatedReplicas", 2),
            ("replicas", 5),
            ("availableReplicas", 3),
        ],
    ),
    (
        ("Deployment", "recreated"),
        &[
            ("updatedReplicas", 2),
            ("replicas", 2),
            ("availableReplicas", 0),
        ],
    ),
    (
        ("StatefulSet", "rolling-set"),
        &[("updatedReplicas", 1), ("availableReplicas", 2)],
    ),
    (
        ("StatefulSet", "partitioned-set"),
        &[("updatedReplicas", 1), ("availableReplicas", 2)],
    ),
    (
        ("DaemonSet", "rolling-daemons"),
        &[("updatedNumberScheduled", 1), ("numberAvailable", 2)],
    ),
    (
        ("DaemonSet", "surging-daemons"),
        &[("updatedNumberScheduled", 0), ("numberAvailable", 3)],
    ),
    (
        ("Job", "work"),
        &[("active", 2), ("ready", 2), ("succeeded", 0)],
    ),
    (
        ("Job", "indexed"),
        &[("active", 3), ("ready", 3), ("succeeded", 0)],
    ),
    (
        ("Job", "failing"),
        &[("active", 1), ("ready", 1), ("failed", 1)],
    ),
    (
        ("ReplicaSet", "losing"),
        &[("replicas", 2), ("availableReplicas", 2)],
    ),
    (("StatefulSet", "losing-set"), &[("availableReplicas", 1)]),
];

/// The state when Flyball hands back, after the pods of [`FIRST_STALL`] were released.
pub(crate) const SECOND_STALL: &[Numbers] = &[
    (
        ("Deployment", "rolling"),
        &[
            ("updatedReplicas", 4),
            ("replicas", 5),
            ("availableReplicas", 3),
        ],
    ),
    (
        ("Deployment", "surging"),
        &[
            ("updatedReplicas", 3),
            ("replicas", 4),
            ("availableReplicas", 3),
        ],
    ),
    (
        ("Deployment", "recreated"),
        &[
            ("updatedReplicas", 2),
            ("replicas", 2),
            ("availableReplicas", 2),
        ],
    ),
    (
        ("StatefulSet", "rolling-set"),
        &[("updatedReplicas", 2), ("availableReplicas", 2)],
    ),
    (
        ("StatefulSet", "partitioned-set"),
        &[("updatedReplicas", 2), ("availableReplicas", 2)],
    ),
    (
        ("DaemonSet", "rolling-daemons"),
        &[("updatedNumberScheduled", 2), ("numberAvailable", 2)],
    ),
    (
        ("DaemonSet", "surging-daemons"),
        &[("updatedNumberScheduled", 1), ("numberAvailable", 3)],
    ),
    (
        ("Job", "work"),
        &[("active", 2), ("ready", 2), ("succeeded", 2)],
    ),
    (
        ("Job", "indexed"),
        &[("active", 0), ("ready", 0), ("succeeded", 3)],
    ),
    (
        ("Job", "failing"),
        &[("active", 1), ("ready", 1), ("failed", 1)],
    ),
    (
        ("ReplicaSet", "losing"),
        &[("replicas", 2), ("availableReplicas", 2)],
    ),
    (("StatefulSet", "losing-set"), &[("availableReplicas", 2)]),
];

/// The state at the end.
pub(crate) const FINISHED: &[Numbers] = &[
    (
        ("Deployment", "rolling"),
        &[
            ("updatedReplicas", 4),
            ("replicas", 4),
            ("availableReplicas", 4),
        ],
    ),
    (
        ("Deployment", "surging"),
        &[
            ("updatedReplicas", 3),
            ("replicas", 3),
            ("availableReplicas", 3),
        ],
    ),
    (
        ("StatefulSet", "rolling-set"),
        &[("updatedReplicas", 3), ("availableReplicas", 3)],
    ),
    (
        ("StatefulSet", "partitioned-set"),
        &[("updatedReplicas", 2), ("availableReplicas", 3)],
    ),
    (
        ("DaemonSet", "rolling-daemons"),
        &[("updatedNumberScheduled", 3), ("numberAvailable", 3)],
    ),
    (
        ("DaemonSet", "surging-daemons"),
        &[("updatedNumberScheduled", 3), ("numberAvailable", 3)],
    ),
    (("Job", "work"), &[("active", 0), ("succeeded", 4)]),
    (
        ("Job", "failing"),
        &[("active", 0), ("succeeded", 1), ("failed", 1)],
    ),
];

/// The objects that the controllers of all leaders together create and delete: no more than one leader would. Half of
/// the numbers are of replaced pods.
pub(crate) const WRITES: [(&str, usize); 13] = [
    // rolled-out, plain, paused, restarted; replica-set; rolling, surging, recreated; leaving; losing.
    (
        "replicaset-controller create pods",
        6 + 2 + 2 + 1 + 2 + 8 + 6 + 4 + 2 + 3,
    ),
    // One for each template that was rolled out, and one for each Deployment that was not.
    (
        "deployment-controller create replicasets",
        2 + 1 + 1 + 1 + 2 + 2 + 2 + 1,
    ),
    // The old pods of each rollout.
    ("replicaset-controller delete pods", 3 + 4 + 3 + 2),
    ("replication-controller create pods", 2),
    // updated-set, parallel-set, on-delete-set, rolling-set, partitioned-set, losing-set.
    ("statefulset-controller create pods", 6 + 3 + 2 + 6 + 5 + 3),
    ("statefulset-controller delete pods", 3 + 3 + 2),
    // Two for each set whose template changed.
    (
        "statefulset-controller create controllerrevisions",
        2 + 1 + 2 + 2 + 2 + 1,
    ),
    // updated-daemons, on-delete-daemons, rolling-daemons, surging-daemons.
    ("daemon-set-controller create pods", 6 + 3 + 6 + 6),
    ("daemon-set-controller delete pods", 3 + 3 + 3),
    (
        "daemon-set-controller create controllerrevisions",
        2 + 2 + 2 + 2,
    ),
    // The Jobs complete, work, indexed and failing, and the Job of the CronJob.
    ("job-controller create pods", 1 + 4 + 3 + 2 + 1),
    ("cronjob-controller create jobs", 1),
    ("cronjob-controller delete jobs", 0),
];

/// A patch of a workload's template: another image and, if `is_held`, pods that don't become ready.
pub(crate) fn change(is_held: bool) -> Value {
    let ready = if is_held { json!("never") } else { Value::Null };
    json!({"spec": {"template": {
        "metadata": {"annotations": {format!("{KUBELET}/ready"): ready}},
        "spec": {"containers": [{"name": "app", "image": "app:2"}]},
    }}})
}

/// Whether a pod waits until it is released.
pub(crate) fn is_held(pod: &Value) -> bool {
    !pod["metadata"]["annotations"][format!("{KUBELET}/ready")].is_null()
}

/// A patch of a pod that lets it become ready.
pub(crate) fn release() -> Value {
    json!({"metadata": {"annotations": {format!("{KUBELET}/ready"): null}}})
}

/// A patch of a pod that ends it.
pub(crate) fn exit(code: u8) -> Value {
    json!({"metadata": {"annotations": {
        format!("{KUBELET}/exit-after"): "0s", format!("{KUBELET}/exit-code"): code.to_string()}}})
}

/// A workload whose pods have the label `app` with its name.
pub(crate) fn workload(kind: &str, name: &str, replicas: u64) -> Value {
    let labels = json!({"app": name});
    let mut object = json!({
        "apiVersion": api::api_version(kind).unwrap_or_default(), "kind": kind, "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}},
    });
    if kind == "ReplicationController" {
        object["spec"]["selector"] = labels;
    }
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = name.into();
    }
    if kind != "DaemonSet" {
        object["spec"]["replicas"] = replicas.into();
    }
    object
}

pub(crate) fn job(
    name: &str,
    completions: u64,
    parallelism: u64,
    mode: &str,
    annotations: &Value,
) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"completions": completions, "parallelism": parallelism, "completionMode": mode,
            "template": {"metadata": {"labels": {"app": name}, "annotations": annotations},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app:1"}]}}},
    })
}

/// A suspended CronJob of which a run is due once a year.
fn cron_job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {"schedule": "1 0 1 1 *", "suspend": true, "concurrencyPolicy": "Replace",
            "jobTemplate": {"spec": job(name, 1, 1, "NonIndexed", &json!({}))["spec"]}},
    })
}

pub(crate) fn budget(name: &str, app: &str, mut spec: Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": app}});
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec})
}

/// The quotas among the objects.
pub(crate) const QUOTAS: [&str; 2] = ["objects", "claims"];

pub(crate) fn quota(name: &str, hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
}
