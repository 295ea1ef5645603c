//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::permissions;

use crate::Disruption;

#[test]
fn the_permissions_are_those_of_the_cluster_role() {
    let description = Disruption::describe();
    assert_eq!(
        permissions(&description),
        [
            "policy/v1/PodDisruptionBudget  get",
            "policy/v1/PodDisruptionBudget status update",
            "v1/Pod status patch",
            "* scale get",
        ]
    );
    assert_eq!(
        description.imports.iter().collect::<Vec<_>>(),
        ["discovery", "raw"]
    );
}

#[test]
fn names_and_concurrency_are_those_of_kube_controller_manager() {
    let description = Disruption::describe();
    let queues: Vec<&str> = description
        .queues
        .iter()
        .map(|queue| queue.name.as_str())
        .collect();
    assert_eq!(
        queues,
        ["disruption", "disruption_recheck", "stale_pod_disruption"]
    );
    assert_eq!(
        (
            description.name.as_str(),
            description.event_source.as_str(),
            description.concurrency
        ),
        ("disruption-controller", "controllermanager", 1)
    );
    let defaults: Vec<(&str, Option<&str>)> = description
        .config
        .iter()
        .map(|(key, config)| (key.as_str(), config.default.as_deref()))
        .collect();
    assert_eq!(
        defaults,
        [
            ("deletion-timeout", Some("2m")),
            ("discovery-period", Some("30s")),
            ("stale-pod-timeout", Some("2m")),
        ]
    );
}

#[test]
fn pods_wake_their_budgets_and_announced_disruptions_the_queue_of_stale_ones() {
    let watches = serde_json_of(&Disruption::describe())["watches"].take();
    assert_eq!(
        watches[1]["map"],
        json!([
            {"to": "selecting", "kind": "policy/v1/PodDisruptionBudget", "path": "spec.selector"},
            {"to": "itself", "on": ["added", "modified"], "queue": "stale_pod_disruption",
             "having": {"path": "status.conditions[type=DisruptionTarget].status", "value": "True"}},
        ])
    );
    assert_eq!(
        watches[0]["changes"],
        json!(["generation", {"path": "status"}])
    );
    let readers: Vec<&Value> = (2..6).map(|at| &watches[at]["map"]).collect();
    assert!(readers.iter().all(|map| map.is_null()));
}

fn serde_json_of(description: &Description) -> Value {
    flyball_sdk::serde_json::to_value(description).unwrap()
}
