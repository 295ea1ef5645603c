//! endpointslice-mirroring-controller: mirrors the Endpoints of Services without a selector to EndpointSlices.
//!
//! `reconcile` names the steps. Each decision is a pure function:
//!
//! 1. [`source`] decides whether Endpoints are mirrored. If not, slices that were mirrored are deleted.
//! 2. [`desired`] computes the endpoints of each slice.
//! 3. [`plan`] decides which slices to create, update and delete.
//!
//! Upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go: syncEndpoints,
//! deleteMirroredSlices.
//! Upstream: pkg/controller/endpointslicemirroring/reconciler.go: reconcile, deleteEndpoints.

pub mod describe;
pub mod desired;
pub mod plan;
pub mod source;

#[cfg(test)]
mod tests;

use std::mem;
use std::time::Duration;

use flyball_sdk::prelude::*;
use flyball_service_endpoints::settings;
use flyball_service_endpoints::size::Size;
use flyball_service_endpoints::slice::{self, Slice};
use flyball_service_endpoints::subsets::Endpoints;
use flyball_service_endpoints::write::{self, Writes, Written};

use desired::Desired;
use plan::MANAGER;

/// The controller. Keys are Endpoints, and the Services of the same names.
pub struct EndpointSliceMirroringController;

export!(EndpointSliceMirroringController);

impl Controller for EndpointSliceMirroringController {
    fn describe() -> Description {
        describe::describe(Duration::ZERO)
    }

    fn describe_configured(host: &Host) -> Description {
        describe::describe(settings::batch_period(host))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        settings::check(host)?;
        let begun = host.now();
        let reconciled = reconcile(host, &request.key);
        let duration = host.now().since(begun);
        host.metrics()
            .observe(describe::DURATION, &[], duration.as_secs_f64());
        reconciled.map(|()| Outcome::Done)
    }
}

/// Brings the slices of Endpoints up to date, or deletes them.
fn reconcile(host: &Host, key: &Key) -> Result<(), Error> {
    let slices = slice::of_service(host, &key.namespace, &key.name, MANAGER)?;
    let endpoints = match source::is_mirrored(host, key)? {
        true => host.get_by_key::<Endpoints>(key)?,
        false => None,
    };
    match endpoints {
        Some(endpoints) => mirror(host, endpoints, slices),
        None => delete_all(host, key, &slices),
    }
}

/// Brings the slices of Endpoints up to date.
fn mirror(host: &Host, mut endpoints: Endpoints, slices: Vec<Slice>) -> Result<(), Error> {
    let maximum = settings::maximum(host, describe::MAXIMUM)?;
    let desired = Desired::of(mem::take(&mut endpoints.subsets), maximum);
    warn(host, &endpoints, &desired, maximum);
    let skipped = desired.skipped;
    describe::GAUGES.set(host, desired.size(maximum));
    let plan = plan::plan(&endpoints, slices, desired);
    let observed = [
        (describe::SKIPPED, skipped),
        (describe::ADDED, plan.added),
        (describe::UPDATED, plan.updated),
        (describe::REMOVED, plan.removed),
    ];
    for (metric, number) in observed {
        host.metrics().observe(metric, &[], number as f64);
    }
    let owner = format!("Endpoints {}", endpoints.meta.key());
    let written = write::run(host, &owner, plan::writes(&endpoints, plan))?;
    count(host, written);
    Ok(())
}

/// Deletes all slices that were mirrored.
fn delete_all(host: &Host, key: &Key, slices: &[Slice]) -> Result<(), Error> {
    describe::GAUGES.set(host, Size::default());
    let deletion = |slice: &Slice| Write::delete_exactly(Slice::KIND, &slice.meta);
    let present = slices.iter().filter(|slice| !slice.meta.is_deleting());
    let writes = Writes {
        delete: present.map(deletion).collect(),
        ..Writes::default()
    };
    write::run(host, &format!("Endpoints {key}"), writes).map(drop)
}

/// Emits events about addresses that are not mirrored, once for each version of the Endpoints. If the memo is full,
/// they are emitted again.
fn warn(host: &Host, endpoints: &Endpoints, desired: &Desired, maximum: usize) {
    if desired.skipped == 0 {
        return;
    }
    let (uid, version) = (&endpoints.meta.uid, &endpoints.meta.resource_version);
    let key = format!("warned/{uid}");
    if host.memo().get::<String>(&key).as_ref() == Some(version) {
        return;
    }
    let _ = host.memo().put(&key, version, uid, Duration::ZERO);
    let about = endpoints.meta.reference(Endpoints::KIND);
    if desired.invalid > 0 {
        let message = format!(
            "Skipped {} invalid IP addresses when mirroring to EndpointSlices",
            desired.invalid
        );
        host.emit(Event::warning(&about, "InvalidIPAddress", &message));
    }
    if desired.skipped > desired.invalid {
        let message = format!(
            "A max of {maximum} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were \
             skipped",
            desired.skipped
        );
        host.emit(Event::warning(&about, "TooManyAddressesToMirror", &message));
    }
}

fn count(host: &Host, written: Written) {
    for (operation, count) in [
        ("create", written.created),
        ("update", written.updated),
        ("delete", written.deleted),
    ] {
        if count > 0 {
            host.metrics()
                .add(describe::CHANGES, &[operation], count as f64);
        }
    }
}
