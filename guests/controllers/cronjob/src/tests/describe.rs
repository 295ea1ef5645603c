//! The description of the controller.

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::*;
use crate::CronJobController;
use crate::settings::{KEYS, Settings};

#[test]
fn the_description_is_valid_and_asks_only_for_permissions_in_use() {
    let description = CronJobController::describe();
    description.check().unwrap();
    assert_eq!(
        permissions(&description),
        [
            "batch/v1/CronJob  get",
            "batch/v1/CronJob status update",
            "batch/v1/CronJob finalizers update",
            "batch/v1/Job  create,delete,get",
        ]
    );
    assert_eq!(
        (description.concurrency, description.event_source.as_str()),
        (5, "cronjob-controller")
    );
}

#[test]
fn the_queue_and_the_metric_are_kube_controller_managers() {
    let description = CronJobController::describe();
    let queue = &description.queues[0];
    assert_eq!(
        (queue.name.as_str(), queue.base_delay_ms, queue.max_delay_ms),
        ("cronjob", 5, 1_000_000)
    );
    assert_eq!(
        serde_json::to_value(&description.metrics).unwrap(),
        json!([{
            "name": "cronjob_controller_job_creation_skew_duration_seconds",
            "help": "Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
            "labels": [],
            "type": {"histogram": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]},
        }])
    );
}

#[test]
fn new_cron_jobs_and_changed_jobs_enqueue_and_changes_are_routed() {
    let watches = &CronJobController::describe().watches;
    let maps: Vec<Value> = watches
        .iter()
        .map(|watch| serde_json::to_value(&watch.map).unwrap())
        .collect();
    assert_eq!(
        maps,
        [
            json!([{"to": "itself", "on": ["added"]}]),
            json!([{"to": "route", "on": ["modified"]}]),
            json!([{"to": "controller", "kind": CRON_JOB}]),
        ]
    );
    assert!(watches.iter().all(|watch| watch.changes.is_empty()));
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
    let mut declared = CronJobController::describe().config.clone();
    declared.remove("emulated-version");
    assert_eq!(declared.len(), KEYS.len());
}

#[test]
fn an_invalid_setting_is_not_retried() {
    for key in KEYS.iter().map(|(key, ..)| key) {
        let world = world(at("12:01:00"), [new_cron_job("0 * * * *")]);
        world.cluster.set_config(key, "-1");
        assert!(world.try_sync().unwrap_err().is_terminal(), "{key}");
    }
}
