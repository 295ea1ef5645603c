//! The description.

use flyball_sdk::prelude::*;
use flyball_sdk::testing::{Cluster, permissions};

use super::world::reconcile;
use crate::settings::{DISCOVERY_PERIOD, SYNC_PERIOD};
use crate::{ALL, ResourceQuotaController};

#[test]
fn the_permissions_are_those_of_the_cluster_role() {
    let description = ResourceQuotaController::describe();
    assert_eq!(
        permissions(&description),
        ["v1/ResourceQuota status update"]
    );
    assert!(description.imports.contains("discovery"));
    description.check().unwrap();
}

#[test]
fn the_queues_and_the_concurrency_are_those_of_kube_controller_manager() {
    let description = ResourceQuotaController::describe();
    let names: Vec<_> = description.queues.iter().map(|queue| &queue.name).collect();
    assert_eq!(names, ["resourcequota_primary", "resourcequota_priority"]);
    assert!(description.queues.iter().all(|queue| (
        queue.base_delay_ms,
        queue.max_delay_ms,
        queue.max_retries
    ) == (5, 1_000_000, None)));
    assert_eq!(description.concurrency, 5);
}

#[test]
fn all_quotas_are_reconciled_every_five_minutes_unless_the_period_is_zero() {
    let cluster = Cluster::new();
    let tickers = |period: Option<&str>| {
        period.inspect(|period| cluster.set_config(SYNC_PERIOD, period));
        let description = ResourceQuotaController::describe_configured(&cluster.host());
        let tickers = description.tickers.iter();
        tickers
            .map(|ticker| (ticker.key.clone(), ticker.period_ms, ticker.config.clone()))
            .collect::<Vec<_>>()
    };
    let every = |ms| vec![(ALL.to_owned(), ms, SYNC_PERIOD.to_owned())];
    assert_eq!(tickers(None), every(300_000));
    assert_eq!(tickers(Some("90s")), every(90_000));
    assert_eq!(tickers(Some("0s")), []);
}

#[test]
fn kinds_are_discovered_every_thirty_seconds_if_their_objects_can_be_counted() {
    let description = ResourceQuotaController::describe();
    let discovered = description
        .watches
        .iter()
        .find_map(|watch| watch.discovered.as_ref());
    let discovered = discovered.unwrap();
    assert_eq!(discovered.period_ms, 30_000);
    assert_eq!(discovered.config, DISCOVERY_PERIOD);
    assert!(
        ["create", "delete", "list", "watch"]
            .iter()
            .all(|verb| discovered.verbs.contains(*verb))
    );
    let named = description
        .watches
        .iter()
        .filter_map(|watch| watch.kind.as_ref());
    for kind in named {
        assert!(
            discovered.except.contains(kind),
            "{kind} would be watched twice"
        );
    }
}

#[test]
fn an_invalid_period_is_reported() {
    for key in [SYNC_PERIOD, DISCOVERY_PERIOD] {
        let cluster = Cluster::new();
        cluster.set_config(key, "soon");
        let error = reconcile(&cluster).unwrap_err();
        assert!(
            error.is_terminal() && error.to_string().contains("`soon`"),
            "{error}"
        );
    }
}
