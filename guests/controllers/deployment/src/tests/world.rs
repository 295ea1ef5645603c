//! A cluster with one Deployment, `web`.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, Written};

use crate::DeploymentController;
use crate::revision::REVISION;
use crate::template::HASH_LABEL;

pub(super) const NAMESPACE: &str = "default";
pub(super) const DEPLOYMENT: &str = "apps/v1/Deployment";
pub(super) const SET: &str = "apps/v1/ReplicaSet";

/// A Deployment with the API server's defaults.
pub(super) fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": NAMESPACE, "uid": "web-uid", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
    })
}

pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image, "resources": {}}]},
    })
}

/// A ReplicaSet with this image, controlled by `web` or an orphan.
pub(super) fn set(name: &str, image: &str, replicas: i64, owned: bool) -> Value {
    let mut template = template(image);
    template["metadata"]["labels"][HASH_LABEL] = name.into();
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "generation": 1, "labels": {"app": "web"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        "status": {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
                   "terminatingReplicas": 0, "observedGeneration": 1},
    });
    if owned {
        set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                                                     "uid": "web-uid", "controller": true}]);
    }
    set
}

pub(super) struct World {
    pub(super) cluster: Cluster,
}

impl World {
    pub(super) fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        Self {
            cluster: Cluster::with(objects),
        }
    }

    /// A cluster with this Deployment, completely rolled out.
    pub(super) fn rolled_out(deployment: Value) -> Self {
        let world = Self::of([deployment]);
        world.finish();
        world.cluster.events();
        world.cluster.advance(Duration::from_secs(10));
        world
    }

    /// Reconciles once and returns the writes.
    pub(super) fn try_sync(&self) -> (Result<Outcome, Error>, Vec<Written>) {
        let outcome = self
            .cluster
            .reconcile::<DeploymentController>("default/web");
        let writes = self.cluster.writes();
        self.set_revision(&writes);
        (outcome, writes)
    }

    /// Reconciles once, which must succeed. Returns the writes as lines.
    pub(super) fn sync(&self) -> Vec<String> {
        let (outcome, writes) = self.try_sync();
        outcome.unwrap();
        writes.iter().map(Written::to_string).collect()
    }

    /// Copies the revision from a status write, as the API server does with a Deployment's
    /// annotations.
    fn set_revision(&self, writes: &[Written]) {
        for write in writes
            .iter()
            .filter(|write| write.subresource == "status" && write.error.is_none())
        {
            let revision = &write.body["metadata"]["annotations"][REVISION];
            if revision.is_string()
                && self.deployment()["metadata"]["annotations"][REVISION] != *revision
            {
                self.edit(|web| web["metadata"]["annotations"][REVISION] = revision.clone());
            }
        }
    }

    /// Gives every ReplicaSet the pods that it wants. Pods of the image `broken` never become
    /// available. Returns whether anything changed.
    pub(super) fn run_pods(&self, broken: &str) -> bool {
        let mut changed = false;
        for set in self.cluster.objects(SET) {
            let desired = set["spec"]["replicas"].clone();
            let is_broken = set["spec"]["template"]["spec"]["containers"][0]["image"] == broken;
            let up = if is_broken { json!(0) } else { desired.clone() };
            let status = json!({
                "replicas": desired, "readyReplicas": up, "availableReplicas": up, "terminatingReplicas": 0,
                "observedGeneration": set["metadata"]["generation"],
            });
            if set["status"] != status {
                changed = true;
                self.edit_set(text(&set["metadata"]["name"]), |set| set["status"] = status);
            }
        }
        changed
    }

    /// Reconciles until nothing changes any more.
    pub(super) fn finish(&self) {
        self.finish_with("");
    }

    /// Like [`finish`](Self::finish), with pods of this image never available.
    pub(super) fn finish_with(&self, broken: &str) {
        for _ in 0..100 {
            let written = self.sync();
            if !self.run_pods(broken) && written.is_empty() {
                return;
            }
        }
        panic!("the rollout does not settle");
    }

    pub(super) fn deployment(&self) -> Value {
        self.cluster.object(DEPLOYMENT, NAMESPACE, "web").unwrap()
    }

    /// Updates the Deployment as a user would.
    pub(super) fn edit(&self, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(DEPLOYMENT, NAMESPACE, "web", |web| {
            let before = web["spec"].clone();
            change(web);
            if web["spec"] != before {
                web["metadata"]["generation"] =
                    (web["metadata"]["generation"].as_i64().unwrap() + 1).into();
            }
        });
    }

    pub(super) fn edit_set(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.cluster.edit(SET, NAMESPACE, name, change);
    }

    pub(super) fn use_image(&self, image: &str) {
        self.edit(|web| web["spec"]["template"] = template(image));
    }

    pub(super) fn scale(&self, replicas: i64) {
        self.edit(|web| web["spec"]["replicas"] = replicas.into());
    }

    pub(super) fn set_of(&self, image: &str) -> Option<Value> {
        let is_of =
            |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"] == image;
        self.cluster.objects(SET).into_iter().find(is_of)
    }

    /// The size of the ReplicaSet with this image; -1 if there is none.
    pub(super) fn size(&self, image: &str) -> i64 {
        self.set_of(image)
            .map_or(-1, |set| set["spec"]["replicas"].as_i64().unwrap())
    }

    /// Status and reason of a condition.
    pub(super) fn condition(&self, condition_type: &str) -> Option<(String, String)> {
        let web = self.deployment();
        let known = web["status"]["conditions"]
            .as_array()?
            .iter()
            .find(|known| known["type"] == condition_type)?;
        Some((text(&known["status"]).into(), text(&known["reason"]).into()))
    }

    /// The reason of the condition `Progressing`.
    pub(super) fn progress(&self) -> String {
        self.condition("Progressing")
            .map_or(String::new(), |(_, reason)| reason)
    }

    /// Numbers of existing, updated and available pods.
    pub(super) fn counts(&self) -> [i64; 3] {
        let status = &self.deployment()["status"];
        ["replicas", "updatedReplicas", "availableReplicas"]
            .map(|count| status[count].as_i64().unwrap_or(-1))
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
