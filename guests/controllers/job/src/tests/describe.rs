//! The description of the controller.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::*;
use crate::JobController;
use crate::settings::{KEYS, Settings};

fn watches(description: &Description) -> Vec<Value> {
    description
        .watches
        .iter()
        .map(|watch| serde_json::to_value(watch).unwrap())
        .collect()
}

#[test]
fn the_description_is_valid_and_asks_only_for_permissions_in_use() {
    let description = JobController::describe();
    description.check().unwrap();
    assert_eq!(
        permissions(&description),
        [
            "v1/Pod  create,delete,patch",
            "batch/v1/Job  get",
            "batch/v1/Job status update",
            "batch/v1/Job finalizers update",
        ]
    );
    assert_eq!(
        (description.concurrency, description.event_source.as_str()),
        (5, "job-controller")
    );
}

#[test]
fn queues_have_kube_controller_managers_names_and_backoff() {
    let queues = &JobController::describe().queues;
    let named: Vec<_> = queues
        .iter()
        .map(|queue| (queue.name.as_str(), queue.base_delay_ms, queue.max_delay_ms))
        .collect();
    assert_eq!(
        named,
        [("job", 1_000, 60_000), ("job_orphan_pod", 1_000, 60_000)]
    );
}

#[test]
fn a_changed_spec_is_reconciled_at_once_and_other_changes_after_the_batch_period() {
    let watches = watches(&JobController::describe());
    assert_eq!(
        (&watches[0]["changes"], &watches[0]["map"]),
        (
            &json!(["generation"]),
            &json!([{"to": "itself"}, {"to": "route"}])
        )
    );
    assert_eq!(
        watches[1]["map"],
        json!([{"to": "itself", "on": ["modified"], "delayMs": 1000}])
    );
    assert_eq!(
        watches[2]["map"],
        json!([
            {"to": "controller", "kind": JOB, "delayMs": 1000},
            {"to": "selecting", "kind": JOB, "path": "spec.selector", "orphans": true, "on": ["added", "modified"],
             "delayMs": 1000},
        ])
    );
    let paths = [
        "metadata.deletionTimestamp",
        "metadata.finalizers",
        "metadata.ownerReferences",
        "status.phase",
    ];
    assert_eq!(
        watches[3]["changes"],
        json!(paths.map(|path| json!({"path": path})))
    );
    let held = json!({"path": "metadata.finalizers", "value": "batch.kubernetes.io/job-tracking"});
    let ended = |phase: &str| json!([held, {"path": "status.phase", "value": phase}]);
    assert_eq!(
        watches[3]["map"],
        json!([
            {"to": "route", "orphans": true, "having": held},
            {"to": "route", "deleting": true, "having": held},
            {"to": "route", "having": ended("Succeeded")},
            {"to": "route", "having": ended("Failed")},
        ])
    );
}

#[test]
fn the_operator_configures_the_batch_period() {
    let cluster = Cluster::new();
    cluster.set_config("sync-batch-period", "250ms");
    let description = JobController::describe_configured(&cluster.host());
    assert_eq!(watches(&description)[1]["map"][0]["delayMs"], 250);
    cluster.set_config("sync-batch-period", "now and then");
    assert_eq!(
        JobController::describe_configured(&cluster.host()),
        JobController::describe()
    );
}

#[test]
fn declared_defaults_are_the_effective_ones() {
    let cluster = Cluster::new();
    for (key, default, _) in KEYS {
        cluster.set_config(key, default);
    }
    assert_eq!(
        Settings::read(&cluster.host()).unwrap(),
        Settings::default()
    );
    assert_eq!(
        Settings::read(&Cluster::new().host()).unwrap(),
        Settings::default()
    );
    let described = JobController::describe();
    let declared = &described.config;
    let settings = declared
        .keys()
        .filter(|key| !key.starts_with("feature-gates.") && *key != "emulated-version");
    assert_eq!(settings.count(), KEYS.len());
}

#[test]
fn an_invalid_setting_is_not_retried() {
    for key in KEYS.iter().map(|(key, ..)| key) {
        let cluster = Cluster::new();
        cluster.set_config(key, "-1");
        assert!(
            Settings::read(&cluster.host()).unwrap_err().is_terminal(),
            "{key}"
        );
        // A backoff of 0 is valid, but with 0 pods per step no job would ever finish.
        cluster.set_config(key, "0");
        let is_number = ["max-uncounted-pods", "max-pod-create-delete-per-sync"].contains(key);
        assert_eq!(Settings::read(&cluster.host()).is_err(), is_number, "{key}");
    }
}

#[test]
fn metrics_have_kube_controller_managers_names() {
    let metrics = &JobController::describe().metrics;
    let names: Vec<_> = metrics
        .iter()
        .map(|metric| metric.name.strip_prefix("job_controller_").unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "job_sync_duration_seconds",
            "job_syncs_total",
            "jobs_finished_total",
            "jobs_by_external_controller_total",
            "job_pods_finished_total",
            "pod_failures_handled_by_failure_policy_total",
            "terminated_pods_tracking_finalizer_total",
            "job_finished_indexes_total",
            "job_pods_creation_total",
        ]
    );
}
