//! A namespace, `team`, that is being deleted, on a server with some kinds.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use crate::NamespaceController;

pub(super) const NAMESPACE: &str = "v1/Namespace";
pub(super) const POD: &str = "v1/Pod";
pub(super) const MAP: &str = "v1/ConfigMap";
pub(super) const DEPLOYMENT: &str = "apps/v1/Deployment";

pub(super) const UPDATE_STATUS: &str = "update v1/Namespace/status team";
pub(super) const FINALIZE: &str = "update v1/Namespace/finalize team";

/// The verbs of most kinds.
pub(super) const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

pub(super) struct World {
    pub(super) cluster: Cluster,
}

/// The namespace; its deletion timestamp is the start of the tests' clock.
pub(super) fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "team", "uid": "team-uid", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Terminating"},
    })
}

/// An object of this kind in the namespace.
pub(super) fn object(kind: &str, name: &str) -> Value {
    let (api_version, kind) = kind.rsplit_once('/').unwrap();
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "team"}})
}

/// An object with these finalizers.
pub(super) fn held(kind: &str, name: &str, finalizers: &[&str]) -> Value {
    let mut object = object(kind, name);
    object["metadata"]["finalizers"] = json!(finalizers);
    object
}

/// A pod on a node, which has a grace period when it is deleted.
pub(super) fn running(name: &str, grace_seconds: i64) -> Value {
    let mut pod = object(POD, name);
    pod["spec"] = json!({"nodeName": "node", "terminationGracePeriodSeconds": grace_seconds});
    pod["status"] = json!({"phase": "Running"});
    pod
}

impl World {
    /// The namespace with these objects; pods, ConfigMaps and Deployments are served.
    pub(super) fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        let world = Self::bare(std::iter::once(namespace()).chain(objects));
        world.cluster.serve(POD, "pods", true, ALL);
        world.cluster.serve(MAP, "configmaps", true, ALL);
        world.cluster.serve(DEPLOYMENT, "deployments", true, ALL);
        world
    }

    /// These objects, on a server that serves nothing.
    pub(super) fn bare(objects: impl IntoIterator<Item = Value>) -> Self {
        Self {
            cluster: Cluster::with(objects),
        }
    }

    pub(super) fn try_sync(&self) -> Result<Outcome, Error> {
        self.cluster.reconcile::<NamespaceController>("team")
    }

    /// Reconciles; it must succeed.
    pub(super) fn sync(&self) -> Outcome {
        self.try_sync().unwrap()
    }

    /// Reconciles; it must fail. Returns the error.
    pub(super) fn fail(&self) -> String {
        let error = self.try_sync().unwrap_err();
        assert!(!error.is_terminal());
        error.to_string()
    }

    pub(super) fn namespace(&self) -> Option<Value> {
        self.cluster.object(NAMESPACE, "", "team")
    }

    pub(super) fn has(&self, kind: &str, name: &str) -> bool {
        self.cluster.object(kind, "team", name).is_some()
    }

    /// The conditions as lines: `type status reason: message`.
    pub(super) fn conditions(&self) -> Vec<String> {
        let namespace = self.namespace().expect("the namespace exists");
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let line = |condition: &Value| {
            let [kind, status, reason, message] =
                ["type", "status", "reason", "message"].map(|field| text(&condition[field]));
            format!("{kind} {status} {reason}: {message}")
        };
        namespace["status"]["conditions"]
            .as_array()
            .map_or(Vec::new(), |all| all.iter().map(line).collect())
    }

    /// The conditions with status `True`.
    pub(super) fn true_conditions(&self) -> Vec<String> {
        self.conditions()
            .into_iter()
            .filter(|condition| condition.contains(" True "))
            .collect()
    }
}
