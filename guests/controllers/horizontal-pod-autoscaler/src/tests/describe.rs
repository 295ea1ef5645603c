//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use crate::HorizontalPodAutoscaler;
use crate::settings::Settings;

#[test]
fn the_permissions_are_those_that_are_used() {
    let description = HorizontalPodAutoscaler::describe();
    assert_eq!(description.check(), Ok(()));
    assert_eq!(
        permissions(&description),
        [
            "autoscaling/v2/HorizontalPodAutoscaler  get",
            "autoscaling/v2/HorizontalPodAutoscaler status update",
            "* scale get,update",
            "metrics.k8s.io/*  list",
            "custom.metrics.k8s.io/* * get",
            "external.metrics.k8s.io/*  list",
        ]
    );
    assert_eq!(description.queues[0].name, "horizontalpodautoscaler");
    assert_eq!(
        (description.concurrency, description.event_source.as_str()),
        (5, "horizontal-pod-autoscaler")
    );
}

#[test]
fn the_sync_period_delays_changes_and_retries() {
    let cluster = Cluster::new();
    cluster.set_config("sync-period", "3s");
    let description = HorizontalPodAutoscaler::describe_configured(&cluster.host());
    assert_eq!(delays(&description, 0), [0, 3000]);
    assert_eq!(delays(&description, 1), [0]);
    assert_eq!(description.watches[1].changes, [Change::Generation]);
    assert_eq!(delays(&description, 2), [0; 0]);
    let queue = &description.queues[0];
    assert_eq!((queue.base_delay_ms, queue.max_delay_ms), (3000, 3000));

    cluster.set_config("emulated-version", "1.36");
    cluster.set_config("feature-gates.HPAGeneration", "false");
    let description = HorizontalPodAutoscaler::describe_configured(&cluster.host());
    assert_eq!(delays(&description, 0), [3000, 3000]);
    assert_eq!(delays(&description, 1), [0; 0]);
}

/// The delays of a watch's mappings.
fn delays(description: &Description, watch: usize) -> Vec<u64> {
    let mappings = description.watches[watch].map.iter();
    mappings.map(|mapping| mapping.delay_ms.into()).collect()
}

#[test]
fn the_settings_default_to_those_of_the_flags() {
    let cluster = Cluster::new();
    // Declared defaults apply under a description.
    assert_eq!(cluster.reconcile::<Read>("a").unwrap(), Outcome::Done);
    for (key, value) in [
        ("tolerance", "-1"),
        ("tolerance", "x"),
        ("sync-period", "soon"),
    ] {
        let cluster = Cluster::new();
        cluster.set_config(key, value);
        let error = cluster.reconcile::<Read>("a").unwrap_err();
        assert!(
            error.is_terminal() && error.to_string().contains(value),
            "{error}"
        );
    }
}

/// Compares the settings with the defaults.
struct Read;

impl Controller for Read {
    fn describe() -> Description {
        HorizontalPodAutoscaler::describe()
    }

    fn reconcile(host: &Host, _: &Request) -> Result<Outcome, Error> {
        assert_eq!(Settings::read(host)?, Settings::default());
        Ok(Outcome::Done)
    }
}
