//! The version at which a migration starts.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::testing::Cluster;

use super::world::*;

#[test]
fn a_running_migration_gets_the_version_of_an_empty_list() {
    let cluster = cluster([running(), widget("a", "7")]);
    record(&cluster).unwrap();
    assert_eq!(
        cluster.live_reads(),
        ["list example.com/v2/Widget @fake:svm_ns!"]
    );
    assert_eq!(cluster.written(), [STATUS_UPDATE]);
    assert_eq!(status(&cluster)["resourceVersion"], "1");
    record(&cluster).unwrap();
    assert!(cluster.written().is_empty());
}

#[test]
fn a_resource_without_namespaces_is_listed_as_a_whole() {
    let cluster = Cluster::with([running()]);
    cluster.serve(WIDGET, "widgets", false, &VERBS);
    record(&cluster).unwrap();
    assert_eq!(cluster.live_reads(), ["list example.com/v2/Widget "]);
}

#[test]
fn a_migration_that_does_not_run_or_has_ended_gets_no_version() {
    for conditions in [
        &[][..],
        &["Running", "Succeeded"],
        &["Running", "Failed"],
        &["Succeeded"],
    ] {
        let cluster = cluster([migration("move", conditions)]);
        record(&cluster).unwrap();
        assert!(cluster.written().is_empty(), "{conditions:?}");
    }
}

#[test]
fn the_preferred_version_is_listed() {
    let cluster = cluster([running()]);
    cluster.serve("example.com/v1/Widget", "widgets", true, &VERBS);
    cluster.serve("other.example.com/v9/Widget", "widgets", true, &VERBS);
    record(&cluster).unwrap();
    assert_eq!(
        cluster.live_reads(),
        ["list example.com/v2/Widget @fake:svm_ns!"]
    );
}

#[test]
fn a_resource_that_is_not_served_is_waited_for_a_minute() {
    let cluster = Cluster::with([running()]);
    cluster.advance(Duration::from_secs(59));
    assert!(!record(&cluster).unwrap_err().is_terminal());
    assert!(cluster.written().is_empty());
    cluster.advance(Duration::from_secs(1));
    record(&cluster).unwrap();
    assert_eq!(
        last_condition(&cluster),
        "Failed True StorageVersionMigrationFailed resource does not exist in discovery"
    );
}

#[test]
fn a_resource_whose_group_could_not_be_discovered_is_waited_for() {
    let cluster = Cluster::with([running()]);
    cluster.fail_discovery("example.com/v2", "no answer");
    cluster.advance(Duration::from_secs(3_600));
    assert!(!record(&cluster).unwrap_err().is_terminal());
    assert!(cluster.written().is_empty());
}

#[test]
fn a_resource_that_can_not_be_changed_fails_the_migration() {
    for missing in ["list", "patch", "update"] {
        let verbs: Vec<&str> = VERBS.into_iter().filter(|verb| *verb != missing).collect();
        let cluster = Cluster::with([running()]);
        cluster.serve(WIDGET, "widgets", true, &verbs);
        record(&cluster).unwrap();
        assert_eq!(
            last_condition(&cluster),
            "Failed True StorageVersionMigrationFailed resource \"example.com/v2, Resource=widgets\" does not support \
             discovery operations: [update patch list]"
        );
    }
}

#[test]
fn a_failed_list_is_retried() {
    let cluster = cluster([running()]);
    cluster.fail("list", WIDGET, ApiError::unreachable("no route"));
    assert!(!record(&cluster).unwrap_err().is_terminal());
    record(&cluster).unwrap();
    assert_eq!(status(&cluster)["resourceVersion"], "1");
}
