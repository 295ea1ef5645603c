//! What the collector does to objects, on an API server in memory.

mod background;
mod coordinates;
mod foreground;
mod orphans;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use crate::{GarbageCollector, TO_DELETE, TO_ORPHAN};

const MAP: &str = "v1/ConfigMap";

/// A cluster that serves what the tests use.
fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.serve(MAP, "configmaps", true, &["delete", "list", "watch"]);
    cluster.serve("v1/Node", "nodes", false, &["delete", "list", "watch"]);
    cluster.serve(
        "example.com/v1/Widget",
        "widgets",
        true,
        &["delete", "list", "watch"],
    );
    cluster
}

/// A ConfigMap of the namespace `a`, with the UID `u-NAME`, that these own: `(name, blocks)`.
fn map(name: &str, owners: &[(&str, bool)]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|(name, blocks)| owner("v1", "ConfigMap", name, *blocks))
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": name, "namespace": "a", "uid": format!("u-{name}"), "ownerReferences": owners,
    }})
}

fn owner(api_version: &str, kind: &str, name: &str, blocks: bool) -> Value {
    let uid = format!("u-{name}");
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": blocks})
}

/// The same, being deleted with this finalizer.
fn going(mut object: Value, finalizer: &str) -> Value {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["metadata"]["finalizers"] = json!([finalizer]);
    object
}

/// The key of a ConfigMap of the namespace `a`.
fn key(name: &str) -> String {
    format!("v1/ConfigMap/a/{name}/u-{name}")
}

fn collect(cluster: &Cluster, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<GarbageCollector>(&Request::new(TO_DELETE, key))
}

fn orphan(cluster: &Cluster, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<GarbageCollector>(&Request::new(TO_ORPHAN, key))
}

/// The keys that were queued to be looked at.
fn queued(cluster: &Cluster) -> Vec<String> {
    let enqueued = cluster.enqueued();
    assert!(enqueued.iter().all(|one| one.queue == TO_DELETE));
    enqueued.into_iter().map(|one| one.key).collect()
}

/// The owners of a ConfigMap of the namespace `a`, by name.
fn owners(cluster: &Cluster, name: &str) -> Vec<String> {
    let object = cluster.object(MAP, "a", name).expect("it is there");
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    owners
        .iter()
        .map(|owner| owner["name"].as_str().expect("it has a name").to_owned())
        .collect()
}

#[test]
fn it_asks_for_what_rbac_grants_its_counterpart() {
    let description = GarbageCollector::describe();
    assert_eq!(permissions(&description), ["*  delete,get,patch"]);
    description.check().unwrap();
}

#[test]
fn a_key_that_names_no_object_is_not_tried_again() {
    assert!(collect(&cluster([]), "a/b").unwrap_err().is_terminal());
}
