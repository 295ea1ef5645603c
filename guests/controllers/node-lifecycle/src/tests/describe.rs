//! The description, and the settings.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::*;
use crate::NodeLifecycle;
use crate::settings::{KEYS, Settings};

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = NodeLifecycle::describe();
    description.check().unwrap();
    assert_eq!(
        (description.name.as_str(), description.event_source.as_str()),
        ("node-lifecycle-controller", "node-controller")
    );
    let queues: Vec<&str> = description
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    assert_eq!(
        queues[..2],
        [
            "node_lifecycle_controller",
            "node_lifecycle_controller_pods"
        ]
    );
    assert_eq!(
        permissions(&description),
        [
            "v1/Node  get,patch",
            "v1/Node status patch",
            "v1/Pod status patch",
            "coordination.k8s.io/v1/Lease  get"
        ]
    );
    let names: Vec<&str> = description
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "node_collector_zone_health",
            "node_collector_zone_size",
            "node_collector_unhealthy_nodes_in_zone",
            "node_collector_evictions_total",
            "node_collector_update_node_health_duration_seconds",
            "node_collector_update_all_nodes_health_duration_seconds"
        ]
    );
}

#[test]
fn heartbeats_and_leases_enqueue_nothing() {
    let description = serde_json::to_value(NodeLifecycle::describe()).unwrap();
    let watches = description["watches"].as_array().unwrap();
    let paths = watches[0]["changes"].as_array().unwrap();
    let covers = |path: &Value| {
        let path = path["path"].as_str().unwrap();
        path == "status.conditions" || path.contains("Time")
    };
    assert!(!paths.iter().any(covers), "{paths:?}");
    assert!(watches[1]["map"].is_null() && watches[1]["namespace"] == "kube-node-lease");
    assert_eq!(
        watches[1]["fields"],
        json!(["metadata.name", "spec.renewTime"])
    );
}

#[test]
fn the_defaults_are_kube_controller_managers() {
    let cluster = Cluster::new();
    for (key, default, _) in KEYS {
        cluster.set_config(key, default);
    }
    assert_eq!(
        Settings::read(&cluster.host()).unwrap(),
        Settings::default()
    );
}

#[test]
fn an_invalid_setting_is_reported_and_not_retried() {
    for (key, value) in [
        ("monitor-period", "often"),
        ("monitor-period", "0s"),
        ("monitor-grace-period", "-1s"),
        ("startup-grace-period", "1"),
        ("eviction-rate", "fast"),
        ("large-cluster-size-threshold", "many"),
    ] {
        let cluster = Cluster::new();
        cluster.set_config(key, value);
        let error = cluster
            .reconcile_request::<NodeLifecycle>(&Request::new(crate::MONITOR, "all"))
            .unwrap_err();
        assert!(
            error.is_terminal() && error.to_string().contains(key),
            "{error}"
        );
    }
    pass(&Cluster::new());
}
