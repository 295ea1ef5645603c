//! Which migrations run.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{refusal, view};

use super::world::*;
use crate::runner::due;
use crate::views::Migration;

const DEFINITION_PATCH: &str =
    "patch apiextensions.k8s.io/v1/CustomResourceDefinition/status widgets.example.com";

/// The names of the migrations that are to be cleaned up, and of the one that starts.
fn decided(migrations: impl IntoIterator<Item = Value>) -> (Vec<String>, Option<String>) {
    let migrations: Vec<Migration> = migrations.into_iter().map(view).collect();
    let due = due(&migrations);
    let name = |migration: &Migration| migration.meta.name.clone();
    let ended = due.ended.iter().map(|migration| name(migration));
    (ended.collect(), due.next.map(name))
}

fn created(migration: Value, time: &str) -> Value {
    with(migration, "/metadata/creationTimestamp", time)
}

/// The definition of widgets, with the condition of a migration that began at this generation.
fn definition(began_at: Option<i64>) -> Value {
    let began = |generation: i64| json!({"type": "StorageMigrating", "status": "True", "observedGeneration": generation});
    let conditions: Vec<Value> = began_at.map(began).into_iter().collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "widgets.example.com", "generation": 2},
           "spec": {"versions": [{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]},
           "status": {"conditions": conditions, "storedVersions": ["v1", "v2"]}})
}

#[test]
fn the_oldest_migration_starts_if_none_is_running() {
    let waiting = |name: &str, time: &str| created(migration(name, &[]), time);
    let [first, second] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"];
    let name = |name: &str| Some(name.to_owned());
    let of = |migrations: Vec<Value>| decided(migrations).1;
    assert_eq!(
        of(vec![
            waiting("a", second),
            waiting("b", first),
            waiting("c", first)
        ]),
        name("b")
    );
    let done = created(migration("done", &["Succeeded"]), first);
    let failed = created(migration("failed", &["Failed"]), first);
    assert_eq!(of(vec![done, failed, waiting("a", second)]), name("a"));
    assert_eq!(of(vec![waiting("a", first), running()]), None);
    assert_eq!(of(vec![]), None);
}

#[test]
fn migrations_that_ended_are_cleaned_up_and_do_not_keep_others() {
    let ended = migration("ended", &["Running", "Succeeded"]);
    let (cleaned, next) = decided([ended, migration("next", &[])]);
    assert_eq!(cleaned, ["ended"]);
    assert_eq!(next.as_deref(), Some("next"));
    assert!(decided([migration("old", &["Succeeded"])]).0.is_empty());
}

#[test]
fn a_migration_of_a_custom_resource_marks_its_definition() {
    let cluster = cluster([migration("move", &[]), definition(None)]);
    let version = cluster
        .object(DEFINITION, "", "widgets.example.com")
        .unwrap();
    let version = version["metadata"]["resourceVersion"].clone();
    run(&cluster).unwrap();
    let writes = cluster.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(lines, [DEFINITION_PATCH, STATUS_UPDATE]);
    assert_eq!(
        writes[0].options,
        json!({"fieldManager": "migration-runner-controller", "force": true})
    );
    assert_eq!(
        writes[0].body,
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
               "metadata": {"name": "widgets.example.com", "resourceVersion": version},
               "status": {"conditions": [
                   {"type": "StorageMigrating", "status": "True", "observedGeneration": 2,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "reason": "MigrationRunning", "message": "Migration move is running"}]}})
    );
    assert_eq!(
        last_condition(&cluster),
        "Running True MigrationRunning The migration is running"
    );
    run(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn the_end_of_a_migration_is_told_and_the_stored_versions_are_shortened() {
    let updated =
        "MigrationSucceeded The migration has succeeded and the stored versions have been updated";
    let changed = "MigrationSucceeded The migration has succeeded but the stored versions have not been updated due to a \
                   generation mismatch";
    for (end, began_at, message, stored) in [
        ("Succeeded", Some(2), updated, json!(["v2"])),
        ("Succeeded", Some(1), changed, json!(["v1", "v2"])),
        ("Succeeded", None, changed, json!(["v1", "v2"])),
        (
            "Failed",
            Some(2),
            "MigrationFailed The migration has failed",
            json!(["v2"]),
        ),
        (
            "Failed",
            Some(1),
            "MigrationFailed The migration has failed",
            json!(["v1", "v2"]),
        ),
    ] {
        let ended = migration("move", &[end, "Running"]);
        let cluster = cluster([ended, definition(began_at)]);
        run(&cluster).unwrap();
        let definition = cluster
            .object(DEFINITION, "", "widgets.example.com")
            .unwrap();
        let status = &definition["status"];
        let conditions = status["conditions"].as_array().unwrap();
        let text = |field: &str| conditions.last().unwrap()[field].as_str().unwrap();
        assert_eq!(text("status"), "False");
        assert_eq!(format!("{} {}", text("reason"), text("message")), message);
        assert_eq!(status["storedVersions"], stored, "{end} {began_at:?}");
        assert_eq!(
            last_condition(&cluster),
            "Running False MigrationCompleted Migration completed"
        );
    }
}

#[test]
fn the_end_is_recorded_with_the_generation_of_the_migration() {
    let cluster = cluster([migration("move", &["Succeeded", "Running"])]);
    run(&cluster).unwrap();
    let running = &status(&cluster)["conditions"][1];
    assert_eq!(running["observedGeneration"], 3);
    assert_eq!(running["lastTransitionTime"], "2026-01-01T00:00:00Z");
    assert_eq!(cluster.written(), [STATUS_UPDATE]);
}

#[test]
fn a_built_in_resource_has_no_definition() {
    let core = with(
        migration("move", &[]),
        "/spec/resource",
        json!({"resource": "widgets", "group": ""}),
    );
    let cluster = cluster([core]);
    let request = Request::new(crate::VERSIONS, "widgets:");
    cluster
        .reconcile_request::<crate::StorageVersionMigrator>(&request)
        .unwrap();
    assert!(cluster.live_reads().is_empty());
    assert_eq!(cluster.written(), [STATUS_UPDATE]);
}

#[test]
fn a_resource_of_another_group_is_another_resource() {
    let other = with(running(), "/spec/resource/group", "other.example.com");
    let other = with(other, "/metadata/name", "other");
    let cluster = cluster([migration("move", &[]), other]);
    run(&cluster).unwrap();
    assert_eq!(cluster.written(), [STATUS_UPDATE]);
}

#[test]
fn a_definition_that_changes_meanwhile_is_read_again() {
    let cluster = cluster([migration("move", &[]), definition(None)]);
    let kind = format!("{DEFINITION}/status");
    cluster.fail("patch", &kind, refusal(409, "Conflict"));
    assert!(!run(&cluster).unwrap_err().is_terminal());
    // The migration does not start before its definition says so.
    assert_eq!(status(&cluster)["conditions"], json!([]));
    run(&cluster).unwrap();
    assert_eq!(cluster.live_reads().len(), 2);
}
