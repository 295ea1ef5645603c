//! A cluster with quotas in the namespace `team`.

use std::collections::BTreeMap;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::kinds::VERBS;
use crate::views::Quota;
use crate::{PRIMARY, ResourceQuotaController};

pub(super) const TEAM: &str = "team";

/// Changes an object's field at a JSON pointer.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

/// An object in the namespace, of a kind such as `apps/v1/Deployment`.
pub(super) fn object(kind: &str, name: &str) -> Value {
    let (version, kind) = kind.rsplit_once('/').expect("a kind has a version");
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": TEAM, "uid": format!("u-{name}")}})
}

/// The quota `quota` with these limits.
pub(super) fn quota(hard: Value) -> Value {
    with(object(Quota::KIND, "quota"), "/spec/hard", hard)
}

/// A quota whose status is complete.
pub(super) fn settled(hard: Value, used: Value) -> Value {
    let status = json!({"hard": hard, "used": used});
    with(quota(hard), "/status", status)
}

pub(super) fn pod(name: &str) -> Value {
    let pod = object("v1/Pod", name);
    with(
        with(pod, "/spec/containers", json!([{"name": "app"}])),
        "/status/phase",
        "Running",
    )
}

/// A pod with this container.
pub(super) fn pod_of(name: &str, resources: Value) -> Value {
    with(pod(name), "/spec/containers/0/resources", resources)
}

/// A cluster that serves some kinds.
pub(super) fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    for (kind, plural) in [
        ("v1/ConfigMap", "configmaps"),
        ("v1/Event", "events"),
        ("v1/Pod", "pods"),
        ("v1/ResourceQuota", "resourcequotas"),
        ("apps/v1/Deployment", "deployments"),
        ("apps/v1/ReplicaSet", "replicasets"),
        ("example.com/v1/Widget", "widgets"),
    ] {
        cluster.serve(kind, plural, true, &VERBS);
    }
    cluster
}

pub(super) fn reconcile(cluster: &Cluster) -> Result<Outcome, Error> {
    cluster.reconcile_request::<ResourceQuotaController>(&Request::new(PRIMARY, "team/quota"))
}

/// One list of the quota's status: `hard` or `used`.
pub(super) fn listed(cluster: &Cluster, list: &str) -> BTreeMap<String, String> {
    let quota = cluster.object(Quota::KIND, TEAM, "quota");
    let list = quota.expect("the quota exists")["status"][list].take();
    flyball_sdk::serde_json::from_value(list).unwrap_or_default()
}

/// Reconciles a new quota with these limits, each `1`, and returns the usage of each, in their order.
pub(super) fn used_of<const N: usize>(
    objects: impl IntoIterator<Item = Value>,
    names: [&str; N],
) -> [String; N] {
    used_under(objects, names, json!({}))
}

/// Does the same as [`used_of`], with these further fields of the quota's spec.
pub(super) fn used_under<const N: usize>(
    objects: impl IntoIterator<Item = Value>,
    names: [&str; N],
    spec: Value,
) -> [String; N] {
    let hard: BTreeMap<&str, &str> = names.iter().map(|name| (*name, "1")).collect();
    let mut quota = quota(json!(hard));
    for (field, value) in spec.as_object().expect("a spec is an object") {
        quota["spec"][field] = value.clone();
    }
    let cluster = cluster(objects);
    cluster.put(quota);
    reconcile(&cluster).unwrap();
    let used = listed(&cluster, "used");
    names.map(|name| used.get(name).cloned().unwrap_or_else(|| "-".into()))
}

/// The quota with these limits and a status that lacks the use.
pub(super) fn unmeasured(hard: Value) -> Value {
    let status = json!({"hard": hard});
    with(quota(hard), "/status", status)
}
