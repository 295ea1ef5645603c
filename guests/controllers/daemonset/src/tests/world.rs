//! A cluster with one DaemonSet, `ds`, and some nodes.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, Enqueued, Written};

use crate::DaemonSetController;
use crate::observed::{GENERATION_LABEL, HASH_LABEL};
use crate::views::TEMPLATE_GENERATION;

pub(super) const KEY: &str = "default/ds";
pub(super) const SET: &str = "apps/v1/DaemonSet";
pub(super) const REVISION: &str = "apps/v1/ControllerRevision";
pub(super) const POD: &str = "v1/Pod";
pub(super) const NODE: &str = "v1/Node";

/// A DaemonSet with the API server's defaults.
pub(super) fn set() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "ds", "namespace": "default", "uid": "ds-uid", "generation": 1,
                     "annotations": {TEMPLATE_GENERATION: "1", "note": "kept"}},
        "spec": {
            "selector": {"matchLabels": {"app": "ds"}},
            "template": {
                "metadata": {"labels": {"app": "ds"}},
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "revisionHistoryLimit": 10,
        },
    })
}

/// The DaemonSet with changes at these JSON pointers.
pub(super) fn set_with<const N: usize>(changes: [(&str, Value); N]) -> Value {
    let mut set = set();
    for (pointer, value) in changes {
        flyball_sdk::testing::set_at(&mut set, pointer, value);
    }
    set
}

/// The pointer to the spec of the DaemonSet's pods.
pub(super) fn of_pods(field: &str) -> String {
    format!("/spec/template/spec/{field}")
}

pub(super) fn surging(surge: impl Into<Value>) -> Value {
    let limits = json!({"maxSurge": surge.into(), "maxUnavailable": 0});
    set_with([("/spec/updateStrategy/rollingUpdate", limits)])
}

pub(super) fn unavailable(limit: impl Into<Value>) -> Value {
    let limits = json!({"maxSurge": 0, "maxUnavailable": limit.into()});
    set_with([("/spec/updateStrategy/rollingUpdate", limits)])
}

pub(super) fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"name": name}}})
}

/// A running pod of the DaemonSet on a node, of the first generation of the template.
pub(super) fn pod(name: &str, node: &str) -> Value {
    let mut pod = orphan(name, node);
    pod["metadata"]["labels"][GENERATION_LABEL] = "1".into();
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet",
                                                 "name": "ds", "uid": "ds-uid", "controller": true}]);
    pod
}

/// A pod without a controller that the DaemonSet selects.
pub(super) fn orphan(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "ds"}},
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    })
}

/// A pod that is meant for a node and not scheduled yet.
pub(super) fn unscheduled(name: &str, node: &str) -> Value {
    let mut pod = pod(name, "");
    pod["spec"] = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}],
    }}}});
    pod["status"]["phase"] = "Pending".into();
    pod
}

/// The condition Ready with this status, since the start of the cluster's clock.
pub(super) fn readiness(status: &str) -> Value {
    json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

pub(super) struct World {
    pub(super) cluster: Cluster,
}

impl World {
    /// A cluster with the DaemonSet and the nodes `n0`, `n1`, …
    pub(super) fn of(set: Value, nodes: usize) -> Self {
        let cluster = Cluster::with([set]);
        for number in 0..nodes {
            cluster.put(node(&format!("n{number}")));
        }
        Self { cluster }
    }

    /// A cluster in which a ready pod of the current template runs on each node.
    pub(super) fn rolled_out(set: Value, nodes: usize) -> Self {
        let world = Self::of(set, nodes);
        world.finish();
        world.cluster.events();
        world
    }

    pub(super) fn with(self, objects: impl IntoIterator<Item = Value>) -> Self {
        objects
            .into_iter()
            .for_each(|object| self.cluster.put(object));
        self
    }

    /// Reconciles once and returns the writes.
    pub(super) fn try_sync(&self) -> (Result<Outcome, Error>, Vec<Written>) {
        let outcome = self.cluster.reconcile::<DaemonSetController>(KEY);
        (outcome, self.cluster.writes())
    }

    /// Reconciles once, which must succeed. Returns the numbers of pods created and deleted.
    pub(super) fn sync(&self) -> (usize, usize) {
        let (outcome, writes) = self.try_sync();
        outcome.unwrap();
        moves(&writes)
    }

    /// Reconciles once, which must succeed, and returns the writes as lines.
    pub(super) fn written(&self) -> Vec<String> {
        let (outcome, writes) = self.try_sync();
        outcome.unwrap();
        writes.iter().map(Written::to_string).collect()
    }

    /// Reconciles a changed node and returns the keys that it enqueues.
    pub(super) fn sync_node(&self, name: &str) -> Vec<String> {
        let request = Request::new("daemonset-node-updates", name);
        self.cluster
            .reconcile_request::<DaemonSetController>(&request)
            .unwrap();
        let key = |one: Enqueued| format!("{} {}", one.queue, one.key);
        self.cluster.enqueued().into_iter().map(key).collect()
    }

    pub(super) fn pods(&self) -> Vec<Value> {
        self.cluster.objects(POD)
    }

    pub(super) fn edit_pod(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(POD, "default", name, change);
    }

    pub(super) fn edit_set(&self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(SET, "default", "ds", change);
    }

    /// Schedules and starts all pods, and ends the pods that are being deleted. They become ready, unless their image
    /// begins with `broken`. Returns whether anything changed.
    pub(super) fn run_pods(&self) -> bool {
        let mut changed = false;
        for pod in self.pods() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            if pod["metadata"]["deletionTimestamp"].is_string() {
                self.cluster.remove(POD, "default", name);
            } else if pod["status"]["conditions"].is_null() {
                self.edit_pod(name, run);
            } else {
                continue;
            }
            changed = true;
        }
        changed
    }

    /// Reconciles and runs pods until nothing is written any more.
    pub(super) fn finish(&self) {
        for _ in 0..100 {
            let (outcome, writes) = self.try_sync();
            outcome.unwrap();
            if !self.run_pods() && writes.is_empty() {
                return;
            }
        }
        panic!("the DaemonSet never comes to rest");
    }

    /// Changes the template as the API server does.
    pub(super) fn set_image(&self, image: &str) {
        self.edit_set(|set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
            let generation = set["metadata"]["generation"].as_i64().unwrap() + 1;
            set["metadata"]["generation"] = generation.into();
            set["metadata"]["annotations"][TEMPLATE_GENERATION] = generation.to_string().into();
        });
    }

    pub(super) fn status(&self) -> Value {
        self.cluster.object(SET, "default", "ds").unwrap()["status"].clone()
    }

    /// The counters of the status: desired, current, misscheduled, ready, available, updated and
    /// unavailable.
    pub(super) fn counters(&self) -> [i64; 7] {
        let status = self.status();
        [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberMisscheduled",
            "numberReady",
            "numberAvailable",
            "updatedNumberScheduled",
            "numberUnavailable",
        ]
        .map(|counter| status[counter].as_i64().unwrap_or(0))
    }

    /// The revisions, oldest first.
    pub(super) fn revisions(&self) -> Vec<Value> {
        let mut revisions = self.cluster.objects(REVISION);
        revisions.sort_by_key(|one| one["revision"].as_i64());
        revisions
    }

    /// The hash of the newest revision.
    pub(super) fn hash(&self) -> String {
        let revisions = self.revisions();
        let labels = &revisions.last().unwrap()["metadata"]["labels"];
        labels[HASH_LABEL].as_str().unwrap().into()
    }

    /// The images of the pods that are not being deleted, by node.
    pub(super) fn images(&self) -> Vec<String> {
        let mut images: Vec<_> = self
            .pods()
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(|pod| {
                let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
                format!("{} {image}", target(pod))
            })
            .collect();
        images.sort();
        images
    }

    pub(super) fn advance(&self, seconds: u64) {
        self.cluster.advance(Duration::from_secs(seconds));
    }
}

/// The numbers of pods created and deleted by these writes.
pub(super) fn moves(writes: &[Written]) -> (usize, usize) {
    let count = |verb: &str| {
        let of_pods = writes
            .iter()
            .filter(|one| one.kind == POD && one.verb == verb);
        of_pods.filter(|one| one.error.is_none()).count()
    };
    (count("create"), count("delete"))
}

/// The node that a pod runs on, or is meant for.
pub(super) fn target(pod: &Value) -> String {
    let meant = pod.pointer(
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
         /nodeSelectorTerms/0/matchFields/0/values/0",
    );
    let node = pod["spec"]["nodeName"]
        .as_str()
        .filter(|node| !node.is_empty());
    node.or(meant.and_then(Value::as_str)).unwrap().into()
}

/// Starts a pod on its node.
pub(super) fn run(pod: &mut Value) {
    pod["spec"]["nodeName"] = target(pod).into();
    pod["status"]["phase"] = "Running".into();
    let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
    let is_broken = image.starts_with("broken");
    pod["status"]["conditions"] = readiness(if is_broken { "False" } else { "True" });
}

/// Labels a pod as one of the revision with this hash, and of no generation.
pub(super) fn of_revision(mut pod: Value, hash: &str) -> Value {
    pod["metadata"]["labels"][HASH_LABEL] = hash.into();
    pod["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove(GENERATION_LABEL);
    pod
}
