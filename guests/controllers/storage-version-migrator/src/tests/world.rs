//! The objects of the tests, and the steps on them.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, set_at};

use crate::{MIGRATIONS, StorageVersionMigrator, VERSIONS};

pub(super) const MIGRATION: &str = "storagemigration.k8s.io/v1/StorageVersionMigration";
/// The same kind in Kubernetes 1.36.
const MIGRATION_1_36: &str = "storagemigration.k8s.io/v1beta1/StorageVersionMigration";
pub(super) const DEFINITION: &str = "apiextensions.k8s.io/v1/CustomResourceDefinition";
pub(super) const WIDGET: &str = "example.com/v2/Widget";
pub(super) const STATUS_UPDATE: &str =
    "update storagemigration.k8s.io/v1/StorageVersionMigration/status move";
/// The verbs of a resource that can be migrated.
pub(super) const VERBS: [&str; 6] = ["delete", "get", "list", "patch", "update", "watch"];

/// An object with a field set.
pub(super) fn with(mut object: Value, pointer: &str, value: impl Into<Value>) -> Value {
    set_at(&mut object, pointer, value);
    object
}

pub(super) fn condition(condition_type: &str, status: &str) -> Value {
    json!({"type": condition_type, "status": status, "reason": "Some"})
}

/// A migration of `widgets.example.com` with these conditions, which are true.
pub(super) fn migration(name: &str, conditions: &[&str]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|own| condition(own, "True"))
        .collect();
    json!({"apiVersion": "storagemigration.k8s.io/v1", "kind": "StorageVersionMigration",
           "metadata": {"name": name, "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"},
           "spec": {"resource": {"group": "example.com", "resource": "widgets"}},
           "status": {"conditions": conditions}})
}

/// The migration `move`, which is running.
pub(super) fn running() -> Value {
    migration("move", &["Running"])
}

/// The same, which starts at this version.
pub(super) fn from_version(version: &str) -> Value {
    with(running(), "/status/resourceVersion", version)
}

/// A widget that was last written at a version.
pub(super) fn widget(name: &str, version: &str) -> Value {
    json!({"apiVersion": "example.com/v2", "kind": "Widget",
           "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"), "resourceVersion": version},
           "spec": {"size": 1}})
}

/// A cluster that serves widgets.
pub(super) fn cluster(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let cluster = Cluster::with(objects);
    cluster.serve(WIDGET, "widgets", true, &VERBS);
    cluster
}

/// The same, for a controller that behaves as in Kubernetes 1.36.
pub(super) fn cluster_of_1_36(objects: impl IntoIterator<Item = Value>) -> Cluster {
    let objects = objects.into_iter().map(|object| match &object["kind"] {
        kind if kind == "StorageVersionMigration" => {
            with(object, "/apiVersion", "storagemigration.k8s.io/v1beta1")
        }
        _ => object,
    });
    let cluster = cluster(objects);
    cluster.set_config("emulated-version", "1.36");
    cluster
}

fn reconcile(cluster: &Cluster, queue: &str, key: &str) -> Result<Outcome, Error> {
    cluster.reconcile_request::<StorageVersionMigrator>(&Request::new(queue, key))
}

pub(super) fn run(cluster: &Cluster) -> Result<Outcome, Error> {
    reconcile(cluster, VERSIONS, "widgets:example.com")
}

pub(super) fn record(cluster: &Cluster) -> Result<Outcome, Error> {
    reconcile(cluster, VERSIONS, "move")
}

pub(super) fn migrate(cluster: &Cluster) -> Result<Outcome, Error> {
    reconcile(cluster, MIGRATIONS, "move")
}

/// The status of the migration `move`.
pub(super) fn status(cluster: &Cluster) -> Value {
    let found = cluster.object(MIGRATION, "", "move");
    let found = found.or_else(|| cluster.object(MIGRATION_1_36, "", "move"));
    found.unwrap()["status"].clone()
}

/// The last condition of the migration `move`: its type, status, reason and message.
pub(super) fn last_condition(cluster: &Cluster) -> String {
    let status = status(cluster);
    let condition = status["conditions"].as_array().unwrap().last().unwrap();
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let [kind, value] = [text("type"), text("status")];
    format!("{kind} {value} {} {}", text("reason"), text("message"))
}
