//! The description, and the settings.

use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_sdk::serde_json;
use flyball_sdk::testing::{Cluster, permissions};

use crate::AttachDetach;
use crate::settings::{KEYS, Settings};

#[test]
fn the_description_has_the_names_of_kube_controller_manager() {
    let description = AttachDetach::describe();
    description.check().unwrap();
    assert_eq!(
        (&*description.name, &*description.event_source),
        (
            "persistentvolume-attach-detach-controller",
            "attachdetach-controller"
        )
    );
    assert_eq!(
        (&*description.queues[1].name, description.concurrency),
        ("pvcs", 1)
    );
    assert_eq!(
        permissions(&description),
        [
            "v1/Node  get",
            "v1/Node status patch",
            "storage.k8s.io/v1/VolumeAttachment  create,delete,get",
        ]
    );
    let names: Vec<&str> = { description.metrics.iter() }
        .map(|metric| &*metric.name)
        .collect();
    assert_eq!(
        names,
        [
            "attach_detach_controller_attachdetach_controller_forced_detaches",
            "attachdetach_controller_total_volumes",
            "storage_count_attachable_volumes_in_use",
            "storage_operation_duration_seconds",
        ]
    );
}

#[test]
fn the_defaults_are_stocks_and_each_key_has_its_default() {
    let defaults = Settings {
        retry: Duration::from_millis(100),
        unmount: Duration::from_secs(360),
        forces: true,
        verification: Duration::from_secs(60),
        verifies: true,
    };
    let cluster = Cluster::new();
    assert_eq!(Settings::read(&cluster.host()).unwrap(), defaults);
    for (key, default, _) in KEYS {
        cluster.set_config(key, default);
    }
    assert_eq!(Settings::read(&cluster.host()).unwrap(), defaults);
    cluster.set_config("max-wait-for-unmount", "soon");
    assert!(Settings::read(&cluster.host()).unwrap_err().is_terminal());
}

#[test]
fn the_looks_have_the_periods_of_the_configuration_and_keys_that_no_node_has() {
    let description = AttachDetach::describe();
    let tickers: Vec<(&str, u32, &str)> = { description.tickers.iter() }
        .map(|ticker| (&*ticker.key, ticker.period_ms, &*ticker.config))
        .collect();
    assert_eq!(
        tickers,
        [
            (
                "all/verification",
                60_000,
                "attach-detach-reconcile-sync-period"
            ),
            ("all/drivers", 60_000, "populator-period"),
            ("all/nodes", 180_000, "list-pods-period"),
        ]
    );
}

#[test]
fn pods_without_volumes_wake_no_node_unless_the_mock_attaches_all() {
    let having_any = |cluster: &Cluster| {
        let description = AttachDetach::describe_configured(&cluster.host());
        description.check().unwrap();
        let pods = serde_json::to_value(&description).unwrap()["watches"][0].take();
        pods["map"][0].get("havingAny").is_some()
    };
    let cluster = Cluster::new();
    assert!(having_any(&cluster));
    cluster.set_config("volume-plugin", "kubernetes.io/mock-provisioner");
    assert!(!having_any(&cluster));
}
