//! The description of the controller.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, permissions};

use crate::DaemonSetController;
use crate::settings::Settings;

#[test]
fn the_description_is_valid_and_asks_only_for_permissions_in_use() {
    let description = DaemonSetController::describe();
    description.check().unwrap();
    assert_eq!(
        permissions(&description),
        [
            "apps/v1/ControllerRevision  create,delete,get,patch,update",
            "v1/Pod  create,delete,patch",
            "apps/v1/DaemonSet  get",
            "apps/v1/DaemonSet status update",
            "apps/v1/DaemonSet finalizers update",
        ]
    );
    assert_eq!(
        (description.concurrency, description.event_source.as_str()),
        (2, "daemonset-controller")
    );
}

#[test]
fn queues_have_kube_controller_managers_names() {
    let queues = &DaemonSetController::describe().queues;
    let names: Vec<_> = queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["daemonset", "daemonset-node-updates"]);
}

#[test]
fn changed_labels_and_taints_of_nodes_have_a_queue_of_their_own() {
    let description = DaemonSetController::describe();
    let nodes = serde_json::to_value(&description.watches[1]).unwrap();
    assert_eq!(nodes["kind"], "v1/Node");
    assert_eq!(nodes["changes"], json!(["labels", {"path": "spec.taints"}]));
    assert_eq!(
        nodes["map"],
        json!([{"to": "itself", "on": ["added", "modified"], "queue": "daemonset-node-updates"}])
    );
}

#[test]
fn pods_enqueue_their_controller_and_orphans_the_sets_that_select_them() {
    let description = DaemonSetController::describe();
    for watch in &description.watches[2..] {
        let maps = serde_json::to_value(watch).unwrap()["map"].clone();
        assert_eq!(
            (&maps[0]["to"], &maps[0]["kind"]),
            (&json!("controller"), &json!("apps/v1/DaemonSet"))
        );
        assert_eq!(
            maps[1],
            json!({"to": "selecting", "kind": "apps/v1/DaemonSet", "path": "spec.selector",
                   "orphans": true, "on": ["added", "modified"]})
        );
    }
}

#[test]
fn pods_are_routed_when_they_are_scheduled_or_can_not_be() {
    let description = DaemonSetController::describe();
    let pods = serde_json::to_value(&description.watches[2]).unwrap();
    for path in [
        "spec.nodeName",
        "status.conditions[type=PodScheduled].message",
    ] {
        let changes = pods["changes"].as_array().unwrap();
        assert!(changes.contains(&json!({"path": path})), "{changes:?}");
    }
}

#[test]
fn the_declared_defaults_are_those_of_the_code() {
    let cluster = Cluster::new();
    assert_eq!(
        Settings::read(&cluster.host()).unwrap(),
        Settings::default()
    );
    for (key, default) in DaemonSetController::describe()
        .config
        .iter()
        .filter_map(|(key, declared)| Some((key, declared.default.as_ref()?)))
    {
        cluster.set_config(key, default);
    }
    assert_eq!(
        Settings::read(&cluster.host()).unwrap(),
        Settings::default()
    );
}

#[test]
fn an_invalid_setting_is_a_terminal_error() {
    for (key, value) in [
        ("failed-pod-backoff", "soon"),
        ("max-failed-pod-backoff", "-1s"),
        ("burst-replicas", "0"),
        ("burst-replicas", "many"),
    ] {
        let cluster = Cluster::new();
        cluster.set_config(key, value);
        let error = Settings::read(&cluster.host()).unwrap_err();
        assert!(
            error.is_terminal() && error.to_string().contains(key),
            "{error}"
        );
    }
}
