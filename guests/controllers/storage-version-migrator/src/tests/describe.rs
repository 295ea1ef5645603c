//! The description and the keys.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{delta, permissions};

use super::world::*;
use crate::StorageVersionMigrator;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = StorageVersionMigrator::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("storage-version-migrator-controller", 5)
    );
    let queues = description.queues.iter();
    let queues: Vec<&str> = queues.map(|queue| queue.name.as_str()).collect();
    assert_eq!(
        queues,
        [
            "storage-version-migrator-controller",
            "resource-version-controller"
        ]
    );
    assert_eq!(
        permissions(&description),
        [
            "*  list,patch",
            "apiextensions.k8s.io/v1/CustomResourceDefinition  get",
            "apiextensions.k8s.io/v1/CustomResourceDefinition status patch",
            "storagemigration.k8s.io/v1/StorageVersionMigration status update"
        ]
    );
    assert!(description.imports.contains("discovery"));
}

#[test]
fn the_whole_metadata_is_cached_because_a_status_is_written_with_it() {
    let fields = &StorageVersionMigrator::describe().watches[0].fields;
    for field in ["metadata", "spec.resource", "status"] {
        assert!(fields.contains(&field.into()), "{field}");
    }
}

#[test]
fn each_change_of_a_migration_wakes_its_resource() {
    let cluster = cluster([]);
    let core = with(running(), "/spec/resource", json!({"resource": "secrets"}));
    let of = |old: Option<&Value>, new: Option<&Value>| -> Vec<String> {
        let routed = cluster.route::<StorageVersionMigrator>(&[delta(MIGRATION, old, new)]);
        let keys = routed.unwrap().into_iter();
        keys.map(|routed| format!("{} {}", routed.queue, routed.key))
            .collect()
    };
    let widgets = "resource-version-controller widgets:example.com";
    assert_eq!(of(None, Some(&running())), [widgets]);
    assert_eq!(of(Some(&running()), None), [widgets]);
    assert_eq!(
        of(Some(&running()), Some(&core)),
        [widgets, "resource-version-controller secrets:"]
    );
}

#[test]
fn migrations_and_resources_that_no_longer_exist_need_nothing() {
    let cluster = cluster([]);
    for result in [run(&cluster), record(&cluster), migrate(&cluster)] {
        assert_eq!(result.unwrap(), Outcome::Done);
    }
    assert!(cluster.written().is_empty() && cluster.live_reads().is_empty());
}
