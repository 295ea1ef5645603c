//! resourcequota-controller: measures the usage of a namespace's quotas by its objects.
//!
//! Admission enforces a quota by its status, and adds the usage by admitted objects to the status. This controller
//! copies the limits into the status, and measures the actual usage: for a new quota, for new limits, after changes
//! that free something ([`wake`]), and now and then for all quotas.
//!
//! [`measure`] asks the [`evaluator`]s of the limits: [`pods`], [`services`], [`volume_claims`],
//! [`resource_claims`], and counters of any kind that [`kinds`] discovers. [`scope`] narrows what
//! counts. [`status`] decides whether there is anything to write.
//!
//! Upstream: pkg/controller/resourcequota/resource_quota_controller.go: NewController, enqueueAll, syncResourceQuota.

pub mod amounts;
pub mod evaluator;
pub mod kinds;
pub mod measure;
pub mod pod_resources;
pub mod pods;
pub mod resource_claims;
pub mod scope;
pub mod services;
pub mod settings;
pub mod status;
#[cfg(test)]
mod tests;
pub mod views;
pub mod volume_claims;
pub mod wake;

use std::time::Duration;

use flyball_sdk::Delta;
use flyball_sdk::RoutedKey;
use flyball_sdk::describe::{Discovered, Ticker, watch_discovered};
use flyball_sdk::prelude::*;

use settings::{DISCOVERY_PERIOD, EXTENDED_RESOURCES, POD_LEVEL_RESOURCES, SYNC_PERIOD, Settings};
use views::{DeviceClass, Pod, Presence, Quota, ResourceClaim, Service, VolumeClaim};

/// The queue of quotas whose use may have changed.
pub const PRIMARY: &str = "resourcequota_primary";
/// The queue of quotas whose status lacks something.
pub const PRIORITY: &str = "resourcequota_priority";
/// The key that enqueues all quotas.
pub const ALL: &str = "all";
/// How long after a write of the status the use is measured again. Admission adds an object to the
/// status before the object exists, so a measurement in between takes it out.
pub const RECOUNT_DELAY: Duration = Duration::from_secs(1);

/// The controller. Keys are `namespace/name`, and [`ALL`].
pub struct ResourceQuotaController;

export!(ResourceQuotaController);

impl Controller for ResourceQuotaController {
    fn describe() -> Description {
        describe_with(&Settings::default())
    }

    fn describe_configured(host: &Host) -> Description {
        // `reconcile` reports invalid settings.
        describe_with(&Settings::read(host).unwrap_or_default())
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        let settings = Settings::read(host)?;
        if request.key == Key::parse(ALL) {
            return enqueue_all(host);
        }
        let Some(quota) = host.get_by_key::<Quota>(&request.key)? else {
            return Ok(Outcome::Done);
        };
        let measured = measure::measure(host, &quota, &settings);
        let status = status::next(&quota, &measured);
        let mut failures = measured.failures;
        let mut outcome = Outcome::Done;
        if let Some(status) = status {
            let written = host.update_status(Quota::KIND, &quota.meta, &status);
            failures.extend(written.doing(|| "updating the status".into()).err());
            outcome = Outcome::RequeueAfter(RECOUNT_DELAY);
        }
        Error::join(failures).map_or(Ok(outcome), Err)
    }

    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        wake::route(host, deltas)
    }
}

/// Enqueues all quotas.
fn enqueue_all(host: &Host) -> Result<Outcome, Error> {
    host.list::<Presence>()
        .each(|quota| Ok(host.queue().add(PRIMARY, &quota.meta.key())?))?;
    Ok(Outcome::Done)
}

fn describe_with(settings: &Settings) -> Description {
    let described = describe("resourcequota-controller", env!("CARGO_PKG_VERSION"))
        .watch(quotas())
        .watch(pods_that_free())
        .watch(
            watch::<Service>()
                .when_at(&["spec.type"])
                .enqueue(on_changes()),
        )
        .watch(
            watch::<VolumeClaim>()
                .when_at(VolumeClaim::FIELDS)
                .enqueue(on_changes()),
        )
        .watch(watch::<ResourceClaim>().enqueue(on_deletion()))
        .watch(watch::<DeviceClass>())
        .watch(other_kinds(settings))
        .queue(PRIMARY)
        .queue(PRIORITY)
        .import("discovery")
        .permission_on(Quota::KIND, "status", ["update"])
        .config(
            SYNC_PERIOD,
            Some("5m"),
            "How often all quotas are reconciled; 0 for never.",
        )
        .config(
            DISCOVERY_PERIOD,
            Some("30s"),
            "How often the kinds that the API server serves are discovered.",
        )
        .feature_gate(EXTENDED_RESOURCES, true)
        .feature_gate(POD_LEVEL_RESOURCES, true)
        .emulated_version()
        .concurrency(5);
    if settings.sync_period.is_zero() {
        return described;
    }
    described.ticker_with(Ticker {
        key: ALL.into(),
        queue: PRIMARY.into(),
        period_ms: u32::try_from(settings.sync_period.as_millis()).unwrap_or(u32::MAX),
        config: SYNC_PERIOD.into(),
    })
}

/// New quotas and quotas with new limits. The metadata is cached whole, because a write of the status carries it.
/// Changes of the status, which this controller and admission write, are ignored.
fn quotas() -> Watch {
    watch::<Quota>()
        .fields(&["metadata"])
        .when_at(&["spec.hard"])
        .enqueue(Mapping::route())
}

/// Pods that are resized, change their scope, end, or are overdue.
fn pods_that_free() -> Watch {
    watch::<Pod>()
        .when_at(&[
            "metadata.deletionGracePeriodSeconds",
            "metadata.deletionTimestamp",
            "spec.activeDeadlineSeconds",
            "status.containerStatuses[*].resources",
            "status.initContainerStatuses[*].resources",
            "status.phase",
        ])
        .enqueue(on_changes())
}

/// All other kinds whose objects can be counted.
fn other_kinds(settings: &Settings) -> Watch {
    let named = [
        Quota::KIND,
        Pod::KIND,
        Service::KIND,
        VolumeClaim::KIND,
        ResourceClaim::KIND,
        DeviceClass::KIND,
    ];
    let kinds = Discovered::every(settings.discovery_period)
        .verbs(&kinds::VERBS)
        .except(&[named.as_slice(), &kinds::EXCEPT].concat())
        .period_config(DISCOVERY_PERIOD);
    watch_discovered(kinds).enqueue(on_deletion())
}

fn on_changes() -> Mapping {
    freeing().on([DeltaType::Modified, DeltaType::Deleted])
}

fn on_deletion() -> Mapping {
    freeing().on([DeltaType::Deleted])
}

/// Without a quota in the namespace, nothing counts what is freed.
fn freeing() -> Mapping {
    Mapping::route().while_any(&[Quota::KIND])
}
