//! A cluster with one StatefulSet, `web`, and builders for the tests' objects.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::StatefulSetController;
use crate::views::{Claim, Pod, StatefulSet};

pub(super) const KEY: &str = "default/web";
pub(super) const STATUS: &str = "update apps/v1/StatefulSet/status default/web";
pub(super) const REVISION: &str = "apps/v1/ControllerRevision";

/// A builder for an object.
#[derive(Clone, Debug)]
pub(super) struct Object(pub(super) Value);

impl Object {
    pub(super) fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        set_at(&mut self.0, pointer, value);
        self
    }
}

/// The set `web` with the API server's defaults and this number of replicas.
pub(super) fn set(replicas: i32) -> Object {
    Object(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web", "generation": 1},
        "spec": {
            "replicas": replicas,
            "serviceName": "web-service",
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("web:1"),
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        "status": {"replicas": 0, "availableReplicas": 0},
    }))
}

/// The same with claims from a template, `data`.
pub(super) fn set_with_claims(replicas: i32) -> Object {
    set(replicas).with(
        "/spec/volumeClaimTemplates",
        json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}}]),
    )
}

/// The same with a retention policy.
pub(super) fn set_with_policy(replicas: i32, when_deleted: &str, when_scaled: &str) -> Object {
    let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    set_with_claims(replicas).with("/spec/persistentVolumeClaimRetentionPolicy", policy)
}

/// A pod template with this image.
pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}},
           "spec": {"containers": [{"name": "c", "image": image}], "restartPolicy": "Always"}})
}

pub(super) fn parallel(set: Object) -> Object {
    set.with("/spec/podManagementPolicy", "Parallel")
}

/// A cluster in which tests play the kubelet.
pub(super) struct World(pub(super) Cluster);

impl World {
    pub(super) fn with(set: Object) -> Self {
        Self(Cluster::with([set.0]))
    }

    pub(super) fn put(&self, object: Value) {
        self.0.put(object);
    }

    pub(super) fn reconcile(&self) -> Result<Outcome, Error> {
        self.0.reconcile::<StatefulSetController>(KEY)
    }

    /// Reconciles without an error, and returns the writes except for writes of revisions and statuses.
    pub(super) fn step(&self) -> Vec<String> {
        self.reconcile().unwrap();
        self.written()
    }

    /// Reconciles with an error, and returns it.
    pub(super) fn fail(&self) -> String {
        self.reconcile().unwrap_err().to_string()
    }

    /// The writes except for writes of revisions and statuses, without their kind's version.
    pub(super) fn written(&self) -> Vec<String> {
        let lines = self.0.written().into_iter();
        lines
            .filter(|line| !line.starts_with(STATUS) && !line.contains(REVISION))
            .map(|line| {
                line.replace("v1/PersistentVolumeClaim default/", "claim ")
                    .replace("v1/Pod default/", "")
            })
            .collect()
    }

    /// Lets a pod run and become ready.
    pub(super) fn ready(&self, pod: &str) {
        let now = self.0.host().now();
        self.pod_status(
            pod,
            json!({"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": now}]}),
        );
    }

    pub(super) fn unready(&self, pod: &str) {
        let conditions = json!([{"type": "Ready", "status": "False"}]);
        self.pod_status(pod, json!({"phase": "Running", "conditions": conditions}));
    }

    pub(super) fn phase(&self, pod: &str, phase: &str) {
        self.pod_status(pod, json!({"phase": phase}));
    }

    fn pod_status(&self, pod: &str, status: Value) {
        self.0
            .edit(Pod::KIND, "default", pod, |pod| pod["status"] = status);
    }

    /// Marks a pod as being deleted.
    pub(super) fn terminate(&self, pod: &str) {
        self.0.edit(Pod::KIND, "default", pod, |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
        });
    }

    /// Removes a pod.
    pub(super) fn remove(&self, pod: &str) {
        self.0.remove(Pod::KIND, "default", pod);
    }

    /// Changes the set like a user: its generation changes as well.
    pub(super) fn edit(&self, pointer: &str, value: impl Into<Value>) {
        self.0.edit(StatefulSet::KIND, "default", "web", |set| {
            set_at(set, pointer, value);
            let generation = set["metadata"]["generation"].as_i64().unwrap();
            set["metadata"]["generation"] = (generation + 1).into();
        });
    }

    /// Reconciles and makes all pods ready until nothing changes.
    pub(super) fn settle(&self) {
        for _ in 0..100 {
            self.reconcile().unwrap();
            let is_unready = |pod: &Value| pod["status"]["phase"] != "Running";
            let unready: Vec<String> = self
                .pods()
                .into_iter()
                .filter(|name| is_unready(&self.pod(name)))
                .collect();
            for pod in &unready {
                self.ready(pod);
            }
            if self.0.written().is_empty() && unready.is_empty() {
                self.0.events();
                return;
            }
        }
        panic!("it does not settle");
    }

    pub(super) fn pods(&self) -> Vec<String> {
        names(self.0.objects(Pod::KIND))
    }

    pub(super) fn claims(&self) -> Vec<String> {
        names(self.0.objects(Claim::KIND))
    }

    pub(super) fn pod(&self, name: &str) -> Value {
        self.0.object(Pod::KIND, "default", name).unwrap()
    }

    pub(super) fn claim(&self, name: &str) -> Value {
        self.0.object(Claim::KIND, "default", name).unwrap()
    }

    /// The names of a claim's owners.
    pub(super) fn owners(&self, claim: &str) -> Vec<String> {
        let owners = self.claim(claim)["metadata"]["ownerReferences"].take();
        let owners = owners.as_array().cloned().unwrap_or_default();
        let name = |owner: Value| owner["name"].as_str().unwrap().to_owned();
        owners.into_iter().map(name).collect()
    }

    /// The image of a pod.
    pub(super) fn image(&self, pod: &str) -> String {
        let image = &self.pod(pod)["spec"]["containers"][0]["image"];
        image.as_str().unwrap().to_owned()
    }

    /// The images of all pods, in order.
    pub(super) fn images(&self) -> Vec<String> {
        self.pods().iter().map(|pod| self.image(pod)).collect()
    }

    pub(super) fn status(&self) -> Value {
        let set = self.0.object(StatefulSet::KIND, "default", "web").unwrap();
        set["status"].clone()
    }

    /// The counters of the status: all, ready, available, current and updated pods.
    pub(super) fn counts(&self) -> [i64; 5] {
        let status = self.status();
        let of = |field: &str| status[field].as_i64().unwrap_or(0);
        [
            of("replicas"),
            of("readyReplicas"),
            of("availableReplicas"),
            of("currentReplicas"),
            of("updatedReplicas"),
        ]
    }

    /// The numbers of the revisions, in the order of their names.
    pub(super) fn revisions(&self) -> Vec<i64> {
        let revisions = self.0.objects(REVISION).into_iter();
        let mut numbers: Vec<i64> = revisions
            .map(|one| one["revision"].as_i64().unwrap())
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

fn names(objects: Vec<Value>) -> Vec<String> {
    let name = |object: Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    objects.into_iter().map(name).collect()
}
