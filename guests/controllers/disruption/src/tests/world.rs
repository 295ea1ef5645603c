//! A budget, `budget`, in the namespace `team`, which selects pods with the label `app=web`.

use flyball_sdk::ObjectReference;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use crate::Disruption;

pub(super) const BUDGET: &str = "policy/v1/PodDisruptionBudget";
pub(super) const POD: &str = "v1/Pod";
pub(super) const UPDATE: &str = "update policy/v1/PodDisruptionBudget/status team/budget";
/// The start of the clock.
pub(super) const START: &str = "2026-01-01T00:00:00Z";

pub(super) struct World {
    pub(super) cluster: Cluster,
}

/// A budget with this spec; without a selector, it selects the label `app=web`.
pub(super) fn budget(name: &str, mut spec: Value) -> Value {
    if spec.get("selector").is_none() {
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
    }
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec,
           "metadata": {"name": name, "namespace": "team", "generation": 1}})
}

/// A ready pod without a controller.
pub(super) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": {},
           "metadata": {"name": name, "namespace": "team", "labels": {"app": "web"}},
           "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

pub(super) fn unready(mut pod: Value) -> Value {
    pod["status"]["conditions"][0]["status"] = "False".into();
    pod
}

pub(super) fn deleted(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = START.into();
    object
}

/// The object with this controller, whose UID is its name.
pub(super) fn controlled(mut object: Value, kind: &str, owner: &str) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').unwrap();
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": api_version, "kind": kind, "name": owner, "uid": owner, "controller": true}
    ]);
    object
}

/// A controller of pods, whose UID is its name.
pub(super) fn scaled(kind: &str, name: &str, replicas: i32) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').unwrap();
    json!({"apiVersion": api_version, "kind": kind, "spec": {"replicas": replicas},
           "metadata": {"name": name, "namespace": "team", "uid": name}})
}

/// The Scale of a controller.
pub(super) fn scale(uid: &str, replicas: i32) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"uid": uid}, "spec": {"replicas": replicas}})
}

impl World {
    pub(super) fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        Self {
            cluster: Cluster::with(objects),
        }
    }

    /// The budget with this spec and these objects.
    pub(super) fn with(spec: Value, objects: impl IntoIterator<Item = Value>) -> Self {
        Self::of(std::iter::once(budget("budget", spec)).chain(objects))
    }

    pub(super) fn try_sync(&self) -> Result<Outcome, Error> {
        self.cluster.reconcile::<Disruption>("team/budget")
    }

    /// Reconciles the budget; it must succeed.
    pub(super) fn sync(&self) {
        self.sync_of("budget");
    }

    pub(super) fn sync_of(&self, name: &str) {
        let key = format!("team/{name}");
        let outcome = self.cluster.reconcile::<Disruption>(&key);
        assert_eq!(outcome.unwrap(), Outcome::Done);
    }

    /// Reconciles a pod of the queue of stale ones.
    pub(super) fn sync_stale(&self, name: &str) -> Result<Outcome, Error> {
        let request = Request::new("stale_pod_disruption", &format!("team/{name}"));
        self.cluster.reconcile_request::<Disruption>(&request)
    }

    pub(super) fn status(&self) -> Value {
        self.status_of("budget")
    }

    pub(super) fn status_of(&self, name: &str) -> Value {
        self.cluster.object(BUDGET, "team", name).unwrap()["status"].take()
    }

    /// The numbers of the status: allowed disruptions, healthy, desired and expected pods.
    pub(super) fn numbers(&self) -> [i64; 4] {
        let status = self.status();
        [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ]
        .map(|name| status[name].as_i64().unwrap())
    }

    /// The condition: `status reason: message`.
    pub(super) fn condition(&self) -> String {
        let condition = self.status()["conditions"][0].take();
        assert_eq!(condition["type"], "DisruptionAllowed");
        let [status, reason, message] =
            ["status", "reason", "message"].map(|name| condition[name].as_str().unwrap_or(""));
        format!("{status} {reason}: {message}")
    }

    /// Makes a pod unready or ready.
    pub(super) fn set_ready(&self, name: &str, ready: &str) {
        self.cluster.edit(POD, "team", name, |pod| {
            pod["status"]["conditions"][0]["status"] = ready.into();
        });
    }

    /// Sets the replicas of a controller.
    pub(super) fn set_replicas(&self, kind: &str, name: &str, replicas: i32) {
        self.cluster.edit(kind, "team", name, |object| {
            object["spec"]["replicas"] = replicas.into();
        });
    }

    /// Events about the budget, or about pods.
    pub(super) fn events(&self) -> Vec<String> {
        self.cluster.events()
    }

    /// The objects that events were about.
    pub(super) fn events_about(&self) -> Vec<(ObjectReference, String)> {
        let events = self.cluster.recorded_events();
        events
            .into_iter()
            .map(|event| (event.about, event.message))
            .collect()
    }

    /// Sets the previous status of the budget.
    pub(super) fn set_status(&self, status: Value) {
        self.cluster.edit(BUDGET, "team", "budget", |budget| {
            budget["status"] = status;
        });
    }
}
