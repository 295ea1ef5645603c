//! The description.

use flyball_sdk::describe::MetricType;
use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use crate::Expansion;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = Expansion::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("persistentvolume-expander-controller", 10)
    );
    assert_eq!(description.queues[0].name, "volume_expand");
    assert_eq!(description.event_source, "volume_expand");
    assert_eq!(
        permissions(&description),
        [
            "v1/PersistentVolume  get,patch",
            "v1/PersistentVolumeClaim status patch"
        ]
    );
}

#[test]
fn operations_are_observed_in_the_buckets_of_kube_controller_manager() {
    let description = Expansion::describe();
    let metric = &description.metrics[0];
    assert_eq!(metric.name, "storage_operation_duration_seconds");
    assert_eq!(
        metric.labels,
        ["volume_plugin", "operation_name", "status", "migrated"]
    );
    let MetricType::Histogram(buckets) = &metric.metric_type else {
        panic!("it is a histogram");
    };
    assert_eq!((buckets.len(), buckets[0], buckets[12]), (13, 0.1, 600.0));
}

#[test]
fn of_cached_volumes_only_an_annotation_is_kept() {
    let description = Expansion::describe();
    assert_eq!(
        description.watches[1].fields,
        ["metadata.annotations['volume.alpha.kubernetes.io/pre-resize-capacity']"]
    );
    assert!(description.watches[1].map.is_empty());
}
