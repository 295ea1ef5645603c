//! The objects that are rewritten.

use std::time::Duration;

use flyball_sdk::live::PAGE;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, refusal};

use super::world::*;

const SUCCEEDED: &str = "Succeeded True StorageVersionMigrationSucceeded Migration completed";

/// The widgets that were written since the last call.
fn rewritten(cluster: &Cluster) -> Vec<String> {
    let writes = cluster.writes().into_iter();
    let of_widgets = writes.filter(|write| write.kind == WIDGET);
    of_widgets.map(|write| write.name).collect()
}

/// The message of the condition `Running`.
fn running_message(cluster: &Cluster) -> String {
    let status = status(cluster);
    let conditions = status["conditions"].as_array().unwrap();
    let running = conditions.iter().find(|own| own["type"] == "Running");
    running.unwrap()["message"]
        .as_str()
        .unwrap_or_default()
        .into()
}

#[test]
fn each_object_is_patched_without_fields() {
    let cluster = cluster([from_version("10"), widget("a", "7"), widget("b", "10")]);
    migrate(&cluster).unwrap();
    let writes = cluster.writes();
    let lines: Vec<String> = writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "patch example.com/v2/Widget team/a",
            "patch example.com/v2/Widget team/b",
            STATUS_UPDATE
        ]
    );
    assert_eq!(writes[0].patch_type, Some(PatchType::Merge));
    assert_eq!(
        writes[0].options,
        json!({"fieldManager": "storage-version-migrator-controller"})
    );
    assert_eq!(
        writes[0].body,
        json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"resourceVersion": "7"}})
    );
    assert_eq!(last_condition(&cluster), SUCCEEDED);
    assert_eq!(
        running_message(&cluster),
        "The migration is running, 2 objects verified migrated"
    );
    migrate(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn in_kubernetes_1_36_each_object_is_applied_without_fields() {
    let cluster = super::world::cluster_of_1_36([from_version("10"), widget("a", "7")]);
    migrate(&cluster).unwrap();
    let writes = cluster.writes();
    assert_eq!(writes[0].patch_type, Some(PatchType::Apply));
    assert_eq!(
        writes[0].body,
        json!({"apiVersion": "example.com/v2", "kind": "Widget",
               "metadata": {"uid": "uid-a", "resourceVersion": "7"}})
    );
    assert_eq!(
        last_condition(&cluster),
        "Succeeded True StorageVersionMigrationSucceeded "
    );
    assert_eq!(running_message(&cluster), "");
}

#[test]
fn a_migration_without_objects_has_no_counts() {
    let cluster = cluster([from_version("10")]);
    migrate(&cluster).unwrap();
    assert_eq!(running_message(&cluster), "The migration is running");
    assert_eq!(last_condition(&cluster), SUCCEEDED);
}

#[test]
fn newer_objects_are_left_alone() {
    let cluster = cluster([from_version("99"), widget("a", "7"), widget("b", "100")]);
    migrate(&cluster).unwrap();
    assert_eq!(rewritten(&cluster), ["a"]);
    assert_eq!(last_condition(&cluster), SUCCEEDED);
}

#[test]
fn a_migration_without_a_version_or_with_an_end_is_left_alone() {
    let ended = with(
        migration("move", &["Running", "Failed"]),
        "/status/resourceVersion",
        "10",
    );
    for migration in [running(), ended] {
        let cluster = cluster([migration, widget("a", "7")]);
        migrate(&cluster).unwrap();
        assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
    }
}

#[test]
fn an_object_that_changed_in_the_meantime_needs_no_migration() {
    for (status, reason) in [(409, "Conflict"), (404, "NotFound")] {
        let cluster = cluster([from_version("10"), widget("a", "7"), widget("b", "8")]);
        cluster.fail("patch", WIDGET, refusal(status, reason));
        migrate(&cluster).unwrap();
        assert_eq!(rewritten(&cluster), ["a", "b"]);
        assert_eq!(last_condition(&cluster), SUCCEEDED, "{reason}");
    }
}

#[test]
fn a_busy_server_is_asked_again() {
    for (status, reason) in [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        let cluster = cluster([from_version("10"), widget("a", "7")]);
        cluster.fail("patch", WIDGET, refusal(status, reason));
        assert!(!migrate(&cluster).unwrap_err().is_terminal());
        assert_eq!(rewritten(&cluster), ["a"]);
        assert_eq!(
            running_message(&cluster),
            format!(
                "The migration is running, 1/1 objects not yet migrated; transient error: the test refuses this: {reason}"
            )
        );
        migrate(&cluster).unwrap();
        assert_eq!(rewritten(&cluster), ["a"]);
        assert_eq!(last_condition(&cluster), SUCCEEDED);
    }
}

#[test]
fn any_other_error_fails_the_migration() {
    let objects = || {
        let widgets = [widget("a", "7"), widget("b", "8"), widget("c", "99")];
        widgets.into_iter().chain([from_version("10")])
    };
    let cluster = cluster(objects());
    cluster.fail("patch", WIDGET, refusal(422, "Invalid"));
    migrate(&cluster).unwrap();
    assert_eq!(
        last_condition(&cluster),
        "Failed True StorageVersionMigrationFailed 2/3 not yet migrated. migration encountered unhandled error: the test \
         refuses this: Invalid"
    );
    assert_eq!(
        running_message(&cluster),
        "The migration is running, 2/3 objects not yet migrated"
    );

    let cluster = super::world::cluster_of_1_36(objects());
    cluster.fail("patch", WIDGET, refusal(422, "Invalid"));
    migrate(&cluster).unwrap();
    assert_eq!(
        last_condition(&cluster),
        "Failed True StorageVersionMigrationFailed migration encountered unhandled error: the test refuses this: Invalid"
    );
    assert_eq!(running_message(&cluster), "");
}

#[test]
fn many_objects_are_rewritten_page_by_page() {
    let widgets = (0..=2 * PAGE).map(|at| widget(&format!("w-{at:04}"), "7"));
    let cluster = cluster(widgets.chain([from_version("10")]));
    for (page, count) in [PAGE, PAGE, 1].into_iter().enumerate() {
        migrate(&cluster).unwrap();
        assert_eq!(rewritten(&cluster).len(), count as usize, "{page}");
        let enqueued = cluster.enqueued();
        assert_eq!(enqueued.len(), usize::from(page < 2));
        assert_eq!(cluster.live_reads(), ["list example.com/v2/Widget "]);
    }
    assert_eq!(last_condition(&cluster), SUCCEEDED);
    assert_eq!(
        running_message(&cluster),
        format!(
            "The migration is running, {} objects verified migrated",
            2 * PAGE + 1
        )
    );
}

#[test]
fn a_migration_begins_again_if_the_token_of_a_page_is_too_old() {
    let widgets = (0..=PAGE).map(|at| widget(&format!("w-{at:04}"), "7"));
    let cluster = cluster(widgets.chain([from_version("10")]));
    migrate(&cluster).unwrap();
    cluster.fail("list", WIDGET, refusal(410, "Expired"));
    migrate(&cluster).unwrap_err();
    rewritten(&cluster);
    migrate(&cluster).unwrap();
    assert_eq!(rewritten(&cluster).len(), PAGE as usize);
}

#[test]
fn a_resource_that_is_gone_fails_the_migration_after_a_minute() {
    let cluster = Cluster::with([from_version("10")]);
    assert!(!migrate(&cluster).unwrap_err().is_terminal());
    cluster.advance(Duration::from_secs(60));
    migrate(&cluster).unwrap();
    assert_eq!(
        last_condition(&cluster),
        "Failed True StorageVersionMigrationFailed migration encountered unhandled error: unable to obtain GVR from \
         discovery"
    );
}

#[test]
fn a_resource_that_nobody_can_watch_is_migrated_too() {
    let cluster = Cluster::with([from_version("10"), widget("a", "7")]);
    cluster.serve(WIDGET, "widgets", true, &["list", "patch", "update"]);
    migrate(&cluster).unwrap();
    assert_eq!(rewritten(&cluster), ["a"]);
    assert_eq!(last_condition(&cluster), SUCCEEDED);
}

#[test]
fn a_version_that_is_no_number_fails_the_migration() {
    let cluster = cluster([from_version("abc")]);
    migrate(&cluster).unwrap();
    assert_eq!(
        last_condition(&cluster),
        "Failed True StorageVersionMigrationFailed migration encountered unhandled error: error comparing resource versions \
         between GC and SVM resource: resource version is not well formed: abc"
    );
    let cluster = super::world::cluster([from_version("10"), widget("a", "x")]);
    migrate(&cluster).unwrap();
    assert!(last_condition(&cluster).ends_with("resource version is not well formed: x"));
}
