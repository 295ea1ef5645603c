//! An autoscaler, `web`, in the namespace `team`, of a Deployment with three ready pods that request one core each.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use crate::HorizontalPodAutoscaler;
use crate::views::Autoscaler;

pub(super) const DEPLOYMENT: &str = "apps/v1/Deployment";
pub(super) const SCALE: &str = "/apis/apps/v1/namespaces/team/deployments/web/scale";
pub(super) const USAGE: &str =
    "/apis/metrics.k8s.io/v1beta1/namespaces/team/pods?labelSelector=app%3Dweb";
pub(super) const STATUS: &str = "update autoscaling/v2/HorizontalPodAutoscaler/status team/web";
pub(super) const RESCALE: &str = "update apps/v1/Deployment/scale team/web";

pub(super) struct World {
    pub(super) cluster: Cluster,
}

/// An autoscaler with this spec beside its target.
pub(super) fn autoscaler(name: &str, mut spec: Value) -> Value {
    if spec.get("scaleTargetRef").is_none() {
        spec["scaleTargetRef"] =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    }
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec,
           "metadata": {"name": name, "namespace": "team", "uid": name, "generation": 1}})
}

/// The metric that half of the requested cores are used.
pub(super) fn cpu() -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}})
}

pub(super) fn external(target: Value) -> Value {
    json!({"type": "External", "external": {"metric": {"name": "depth"}, "target": target}})
}

/// A running pod that has been ready for long.
pub(super) fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "team", "labels": {"app": "web"}},
           "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1", "memory": "100Mi"}}}]},
           "status": {"phase": "Running", "startTime": "2025-12-31T00:00:00Z",
                      "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:01:00Z"}]}})
}

/// The usage of pods by name.
pub(super) fn usage<'a>(pods: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let item = |(name, cpu): (&str, &str)| {
        json!({"metadata": {"name": name}, "timestamp": "2026-01-01T00:00:00Z", "window": "30s",
               "containers": [{"name": "app", "usage": {"cpu": cpu, "memory": "50Mi"}}]})
    };
    json!({"items": pods.into_iter().map(item).collect::<Vec<_>>()})
}

impl World {
    /// Three replicas, and this autoscaler's spec.
    pub(super) fn new(spec: Value) -> Self {
        let pods = ["a", "b", "c"].map(pod);
        let cluster = Cluster::with(pods.into_iter().chain([autoscaler("web", spec)]));
        cluster.serve(DEPLOYMENT, "deployments", true, &["get"]);
        cluster.serve("v1/Pod", "pods", true, &["get"]);
        cluster.serve("v1/Service", "services", true, &["get"]);
        cluster.put(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3},
                           "metadata": {"name": "web", "namespace": "team"}}),
        );
        let world = Self { cluster };
        world.scale(3);
        world
    }

    /// An autoscaler by the usage of CPU, between one and ten replicas.
    pub(super) fn by_cpu() -> Self {
        Self::new(json!({"minReplicas": 1, "maxReplicas": 10, "metrics": [cpu()]}))
    }

    /// Sets the replicas of the target, as it has and as it wants.
    pub(super) fn scale(&self, replicas: i32) {
        self.scale_with(replicas, replicas, "app=web");
    }

    pub(super) fn scale_with(&self, wanted: i32, existing: i32, selector: &str) {
        self.cluster.edit(DEPLOYMENT, "team", "web", |web| {
            web["spec"]["replicas"] = wanted.into();
        });
        let web = self.cluster.object(DEPLOYMENT, "team", "web").unwrap();
        self.cluster.put_raw(
            SCALE,
            json!({"metadata": web["metadata"], "spec": {"replicas": wanted},
                   "status": {"replicas": existing, "selector": selector}}),
        );
    }

    /// Sets the CPU usage of each pod.
    pub(super) fn uses(&self, cpu: &str) {
        self.uses_each([("a", cpu), ("b", cpu), ("c", cpu)]);
    }

    pub(super) fn uses_each<'a>(&self, pods: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.cluster.put_raw(USAGE, usage(pods));
    }

    pub(super) fn put_external(&self, values: &[&str]) {
        let items: Vec<Value> = values.iter().map(|value| json!({"value": value})).collect();
        let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/team/depth";
        self.cluster.put_raw(path, json!({"items": items}));
    }

    /// Reconciles, a period after the last time.
    pub(super) fn sync(&self) {
        self.cluster.advance(Duration::from_secs(15));
        let outcome = self
            .cluster
            .reconcile::<HorizontalPodAutoscaler>("team/web")
            .unwrap();
        assert_eq!(outcome, Outcome::RequeueAfter(Duration::from_secs(15)));
    }

    /// Reconciles, and returns the replicas that the target wants then. The Scale follows.
    pub(super) fn replicas(&self) -> i64 {
        self.sync();
        let web = self.cluster.object(DEPLOYMENT, "team", "web").unwrap();
        let replicas = web["spec"]["replicas"].as_i64().unwrap();
        self.scale(replicas as i32);
        replicas
    }

    pub(super) fn status(&self) -> Value {
        let object = self.cluster.object(Autoscaler::KIND, "team", "web");
        object.unwrap()["status"].clone()
    }

    /// A condition as `status reason: message`.
    pub(super) fn condition(&self, kind: &str) -> String {
        let status = self.status();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|own| own["type"] == kind);
        found.map_or_else(String::new, |own| {
            let text = |field: &str| own[field].as_str().unwrap_or_default();
            format!("{} {}: {}", text("status"), text("reason"), text("message"))
        })
    }

    /// The status and the reason of a condition.
    pub(super) fn reason(&self, kind: &str) -> String {
        let condition = self.condition(kind);
        condition.split(':').next().unwrap_or_default().to_owned()
    }

    /// The writes, without the errors of failed ones.
    pub(super) fn written(&self) -> Vec<String> {
        let lines = self.cluster.written().into_iter();
        let write = |line: String| line.split(": ").next().unwrap_or_default().to_owned();
        lines.map(write).collect()
    }

    pub(super) fn edit(&self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(Autoscaler::KIND, "team", "web", change);
    }
}
