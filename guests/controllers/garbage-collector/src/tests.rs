//! The collector's effects, with an in-memory API server.

mod background;
mod coordinates;
mod foreground;
mod large;
mod orphans;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use crate::{GarbageCollector, TO_DELETE, TO_ORPHAN};

const MAP: &str = "v1/ConfigMap";

/// A cluster that serves the kinds that the tests use.
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

/// A ConfigMap in the namespace `a` with the UID `u-NAME` and these owners: `(name, blocks)`.
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

/// The same object, being deleted with this finalizer.
fn going(mut object: Value, finalizer: &str) -> Value {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object["metadata"]["finalizers"] = json!([finalizer]);
    object
}

/// The key of a ConfigMap in the namespace `a`.
fn key(name: &str) -> String {
    format!("v1/ConfigMap/a/{name}/u-{name}")
}

fn collect(cluster: &Cluster, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<GarbageCollector>(&Request::new(TO_DELETE, key))
}

fn orphan(cluster: &Cluster, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<GarbageCollector>(&Request::new(TO_ORPHAN, key))
}

/// The keys that were enqueued in the queue `TO_DELETE`.
fn queued(cluster: &Cluster) -> Vec<String> {
    let enqueued = cluster.enqueued();
    assert!(enqueued.iter().all(|one| one.queue == TO_DELETE));
    enqueued.into_iter().map(|one| one.key).collect()
}

/// The owners of a ConfigMap in the namespace `a`, by name.
fn owners(cluster: &Cluster, name: &str) -> Vec<String> {
    let object = cluster
        .object(MAP, "a", name)
        .expect("the ConfigMap exists");
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    owners
        .iter()
        .map(|owner| {
            owner["name"]
                .as_str()
                .expect("an owner has a name")
                .to_owned()
        })
        .collect()
}

#[test]
fn the_permissions_are_those_of_the_cluster_role() {
    let description = GarbageCollector::describe();
    assert_eq!(permissions(&description), ["*  delete,get,patch"]);
    description.check().unwrap();
}

#[test]
fn a_key_that_is_not_a_reference_is_not_retried() {
    assert!(collect(&cluster([]), "a/b").unwrap_err().is_terminal());
}
