//! The cluster in memory on which the controllers work.

use flyball_testserver::api::Served;
use flyball_types::Kind;
use serde_json::{Value, json};

/// The namespace of the objects.
const NAMESPACE: &str = "demo";
/// A time in the past.
const PAST: &str = "2020-01-01T00:00:00Z";

/// The kinds of the API server, as groups and versions with kinds and their plurals. The controllers watch them.
const KINDS: [(&str, &str, &[[&str; 2]]); 6] = [
    (
        "",
        "v1",
        &[
            ["Event", "events"],
            ["PersistentVolumeClaim", "persistentvolumeclaims"],
            ["Pod", "pods"],
            ["ReplicationController", "replicationcontrollers"],
            ["Service", "services"],
            ["ServiceAccount", "serviceaccounts"],
        ],
    ),
    (
        "apps",
        "v1",
        &[
            ["ControllerRevision", "controllerrevisions"],
            ["DaemonSet", "daemonsets"],
            ["Deployment", "deployments"],
            ["ReplicaSet", "replicasets"],
            ["StatefulSet", "statefulsets"],
        ],
    ),
    ("batch", "v1", &[["CronJob", "cronjobs"], ["Job", "jobs"]]),
    (
        "discovery.k8s.io",
        "v1",
        &[["EndpointSlice", "endpointslices"]],
    ),
    ("events.k8s.io", "v1", &[["Event", "events"]]),
    (
        "policy",
        "v1",
        &[["PodDisruptionBudget", "poddisruptionbudgets"]],
    ),
];
/// The kinds without namespaces.
const CLUSTER_SCOPED: [[&str; 2]; 2] = [["Namespace", "namespaces"], ["Node", "nodes"]];

/// The kinds that the API server has.
pub(crate) fn kinds() -> Vec<Served> {
    let served = |group: &str, version: &str, [kind, plural]: [&str; 2], namespaced| Served {
        kind: Kind::new(group, version, kind),
        plural: plural.into(),
        namespaced,
    };
    let namespaced = KINDS.iter().flat_map(|(group, version, kinds)| {
        kinds
            .iter()
            .map(|names| served(group, version, *names, true))
    });
    let others = CLUSTER_SCOPED.map(|names| served("", "v1", names, false));
    namespaced.chain(others).collect()
}

/// The kubeconfig of the host.
pub(crate) fn kubeconfig(url: &str) -> String {
    const NAME: &str = "memory";
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": {"server": url}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "users": [{"name": NAME, "user": {}}],
    })
    .to_string()
}

/// Something for each controller to do. The objects have the defaults of the real API server that matter.
pub(crate) fn objects() -> Vec<Value> {
    let replicas =
        |name: &str| json!({"replicas": 2, "selector": selector(name), "template": template(name)});
    let mut web = replicas("web");
    web["strategy"] = json!({
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    });
    let mut db = replicas("db");
    db["serviceName"] = "db".into();
    db["podManagementPolicy"] = "OrderedReady".into();
    db["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    let agent = json!({
        "selector": selector("agent"),
        "template": template("agent"),
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        },
    });
    let tick = json!({
        "schedule": "* * * * *",
        "startingDeadlineSeconds": 120,
        "concurrencyPolicy": "Allow",
        "suspend": false,
        "jobTemplate": {"spec": {"template": template("tick")}},
    });
    let job = json!({
        "selector": selector("job"),
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": template("job"),
    });
    let mut finished = object("batch/v1", "Job", "finished", job.clone());
    finished["spec"]["ttlSecondsAfterFinished"] = 0.into();
    finished["status"] = json!({
        "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": PAST}],
    });
    let budget = json!({"minAvailable": 1, "selector": selector("guarded")});
    let service = json!({
        "clusterIP": "10.0.0.1",
        "ipFamilies": ["IPv4"],
        "selector": labels("guarded"),
        "ports": [{"port": 80, "protocol": "TCP"}],
    });
    let mut namespace = object("v1", "Namespace", NAMESPACE, json!({}));
    namespace["status"] = json!({"phase": "Active"});
    vec![
        namespace,
        object("v1", "Node", "node", json!({})),
        pod("a", true),
        pod("b", true),
        pod("c", false),
        object("v1", "Service", "guarded", service),
        object("policy/v1", "PodDisruptionBudget", "guarded", budget),
        object("apps/v1", "Deployment", "web", web),
        object("apps/v1", "StatefulSet", "db", db),
        object("apps/v1", "DaemonSet", "agent", agent),
        object("batch/v1", "CronJob", "tick", tick),
        object("batch/v1", "Job", "job", job),
        finished,
    ]
}

fn object(version: &str, kind: &str, name: &str, spec: Value) -> Value {
    let mut metadata = json!({"name": name, "creationTimestamp": PAST, "generation": 1});
    if !CLUSTER_SCOPED.iter().any(|[own, _]| *own == kind) {
        metadata["namespace"] = NAMESPACE.into();
    }
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// A pod behind the Service.
fn pod(name: &str, is_ready: bool) -> Value {
    let spec = json!({"nodeName": "node", "containers": [{"name": "main", "image": "main:1"}]});
    let mut pod = object("v1", "Pod", name, spec);
    pod["metadata"]["labels"] = labels("guarded");
    let ready = if is_ready { "True" } else { "False" };
    // The last byte of its address.
    let last = name.as_bytes()[0];
    let address = format!("10.1.0.{last}");
    pod["status"] = json!({
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": ready}],
    });
    pod
}

fn labels(name: &str) -> Value {
    json!({"app": name})
}

fn selector(name: &str) -> Value {
    json!({"matchLabels": labels(name)})
}

fn template(name: &str) -> Value {
    let containers = json!([{"name": "main", "image": "main:1"}]);
    json!({"metadata": {"labels": labels(name)}, "spec": {"containers": containers}})
}
