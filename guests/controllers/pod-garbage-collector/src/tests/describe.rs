//! The description, and the settings that it depends on.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::tick;
use crate::PodGarbageCollector;

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = PodGarbageCollector::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.concurrency),
        ("pod-garbage-collector-controller", 1)
    );
    assert!(
        description
            .queues
            .iter()
            .any(|queue| queue.name == "orphaned_pods_nodes")
    );
    assert_eq!(
        permissions(&description),
        ["v1/Pod  delete", "v1/Pod status patch", "v1/Node  get"]
    );
    let names: Vec<&str> = description
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "pod_gc_collector_force_delete_pods_total",
            "pod_gc_collector_force_delete_pod_errors_total"
        ]
    );
}

#[test]
fn a_pod_enqueues_its_node_only_if_that_is_missing() {
    let description = serde_json::to_value(PodGarbageCollector::describe()).unwrap();
    let mapping = &description["watches"][1]["map"][0];
    assert_eq!(
        (&mapping["path"], &mapping["kind"], &mapping["missing"]),
        (&json!("spec.nodeName"), &json!("v1/Node"), &json!(true))
    );
}

/// The delay of the first mapping of a watch, in milliseconds.
fn delay(description: &Description, watch: usize) -> u32 {
    description.watches[watch].map[0].delay_ms
}

#[test]
fn delays_and_retries_follow_the_settings() {
    let cluster = Cluster::new();
    let default = PodGarbageCollector::describe_configured(&cluster.host());
    assert_eq!(default, PodGarbageCollector::describe());
    assert_eq!((delay(&default, 0), delay(&default, 1)), (20_000, 20_000));
    assert_eq!(default.tickers[0].period_ms, 20_000);
    assert_eq!(default.queues[3].base_delay_ms, 40_000);

    cluster.set_config("period", "1s");
    cluster.set_config("quarantine", "0s");
    let quick = PodGarbageCollector::describe_configured(&cluster.host());
    quick.check().unwrap();
    assert_eq!((delay(&quick, 0), delay(&quick, 1)), (1000, 1000));
    assert_eq!(quick.queues[3].base_delay_ms, 1000);
    assert_eq!(quick.tickers[0].config, "period");
}

#[test]
fn a_deleted_node_is_looked_at_without_delay() {
    let description = PodGarbageCollector::describe();
    let expected = describe("x", "1").watch(
        watch_kind("v1/Node").enqueue(
            Mapping::itself()
                .on([DeltaType::Deleted])
                .queue("pod_garbage_collector_nodes"),
        ),
    );
    assert_eq!(description.watches[2].map, expected.watches[0].map);
    assert_eq!(
        Duration::from_millis(delay(&description, 2).into()),
        Duration::ZERO
    );
}

#[test]
fn an_invalid_setting_is_reported_and_not_retried() {
    for (key, value) in [
        ("period", "often"),
        ("period", "0s"),
        ("quarantine", "-1s"),
        ("terminated-pod-threshold", "many"),
    ] {
        let cluster = Cluster::new();
        cluster.set_config(key, value);
        let error = tick(&cluster).unwrap_err();
        assert!(
            error.is_terminal() && error.to_string().contains(key),
            "{error}"
        );
    }
}
