//! endpointslice-controller: keeps the EndpointSlices of Services that select pods.
//!
//! `reconcile` names the steps. Each decision is a pure function:
//!
//! 1. [`endpoints`] computes the endpoints of the Service's pods, grouped by their ports. [`nodes`] reads their zones.
//! 2. [`plan`] decides on the [`changes`] of slices: which to create, update and delete. [`pack`] puts the endpoints of a
//!    group into slices.
//! 3. [`hints`] adds the zones and nodes that endpoints are meant for: by annotation ([`zones`]) or by the Service's
//!    traffic distribution ([`traffic`]).
//! 4. [`act`] writes the slices.
//!
//! Changed nodes have a queue of their own ([`overload`]), which enqueues only the Services whose hints no longer suit
//! the nodes.
//!
//! The gauges of kube-controller-manager's controller, which are sums over all Services, are left out: a reconcile
//! knows only its own Service.
//!
//! Upstream: pkg/controller/endpointslice/endpointslice_controller.go: syncService, dropEndpointSlicesPendingDeletion.
//! Upstream: staging/src/k8s.io/endpointslice/reconciler.go: Reconcile, reconcileByAddressType.

pub mod act;
pub mod changes;
pub mod describe;
pub mod endpoints;
pub mod hints;
pub mod labels;
pub mod nodes;
pub mod overload;
pub mod pack;
pub mod plan;
pub mod traffic;
pub mod views;
pub mod zones;

#[cfg(test)]
mod tests;

use flyball_sdk::prelude::*;
use flyball_service_endpoints::ip::Family;
use flyball_service_endpoints::pod::{self, Pod};
use flyball_service_endpoints::ports::PortFinder;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::settings;
use flyball_service_endpoints::size::Size;
use flyball_service_endpoints::slice::{self, Slice};
use flyball_service_endpoints::trigger::Times;

use endpoints::Desired;
use hints::Hinter;
use labels::MANAGER;
use nodes::Nodes;
use traffic::DISTRIBUTIONS;

/// The controller. Keys are Services, or the constant key of the queue of nodes.
pub struct EndpointSliceController;

export!(EndpointSliceController);

impl Controller for EndpointSliceController {
    fn describe() -> Description {
        describe::describe(std::time::Duration::ZERO)
    }

    fn describe_configured(host: &Host) -> Description {
        describe::describe(settings::batch_period(host))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        if request.queue == describe::NODE_QUEUE {
            return overload::reconcile(host);
        }
        let Some(service) = host.get_by_key::<Service>(&request.key)? else {
            // The Service was deleted. The garbage collector deletes its slices.
            show(host, Size::default(), None);
            return Ok(Outcome::Done);
        };
        if !service.has_endpoints() {
            show(host, Size::default(), None);
            return Ok(Outcome::Done);
        }
        let result = sync(host, &service);
        let label = if result.is_ok() { "success" } else { "error" };
        host.metrics().add(describe::SYNCS, &[label], 1.0);
        if let Err(error) = &result {
            let message = format!(
                "Error updating Endpoint Slices for Service {}: {}",
                request.key,
                error.message()
            );
            let about = service.meta.reference(Service::KIND);
            host.emit(Event::warning(
                &about,
                "FailedToUpdateEndpointSlices",
                &message,
            ));
        }
        result.map(|()| Outcome::Done)
    }
}

/// Brings the slices of a Service up to date. All address types are attempted.
fn sync(host: &Host, service: &Service) -> Result<(), Error> {
    settings::check(host)?;
    let maximum = settings::maximum(host, describe::MAXIMUM)?;
    let (mut pods, mut times) = (Vec::new(), Times::of(service));
    pod::each_of_service(host, service, |pod| {
        times.add(&pod);
        pods.push(pod);
    })?;
    let changed_at = times.last_change(host, service);
    let desired = desired(host, service, pods)?;
    let (slices, outdated) = slices(host, service)?;
    let mut hinter = Hinter::of(host, service);
    let mut size = Size::default();

    let mut errors = Vec::new();
    for ((family, slices), desired) in slices.into_iter().zip(desired) {
        errors.extend(desired.skipped.iter().map(Error::failed));
        let of_family = desired.size(maximum);
        let mut plan = plan::plan(service, slices, desired, maximum);
        size += Size {
            slices: plan.slices(),
            ..of_family
        };
        let notes = hinter.hint(&mut plan, family)?;
        let written = act::write(host, service, plan, family, changed_at, hinter.labels());
        errors.extend(written.err());
        hinter.emit(&notes);
    }
    hinter.remember();
    show(host, size, hinter.distribution());
    errors.extend(act::delete(host, service, &outdated).err());
    Error::join(errors).map_or(Ok(()), Err)
}

/// The endpoints that each family of the Service should have, in its order. The pods are dropped before the slices are
/// read: there may be thousands of both.
fn desired(host: &Host, service: &Service, pods: Vec<Pod>) -> Result<Vec<Desired>, Error> {
    let ports = PortFinder::read(host, service)?;
    let nodes = Nodes::read(host, &pods)?;
    let of_family = |family| endpoints::desired(service, &pods, &ports, &nodes, family);
    Ok(service.families().into_iter().map(of_family).collect())
}

/// Sets the part of the Service in the gauges of all Services. The default size removes it.
fn show(host: &Host, size: Size, distribution: Option<&str>) {
    describe::GAUGES.set(host, size);
    for known in DISTRIBUTIONS {
        let is_own = distribution == Some(known);
        host.metrics().set(
            describe::BY_TRAFFIC_DISTRIBUTION,
            &[known],
            f64::from(is_own),
        );
    }
}

/// The families of a Service, with their slices.
type ByFamily = Vec<(Family, Vec<Slice>)>;

/// Returns the slices of each family of the Service, and the slices of other address types.
fn slices(host: &Host, service: &Service) -> Result<(ByFamily, Vec<Slice>), Error> {
    let Meta {
        name, namespace, ..
    } = &service.meta;
    let mut slices = slice::of_service(host, namespace, name, MANAGER)?;
    slices.retain(|slice| !slice.meta.is_deleting());
    let mut families = Vec::new();
    for family in service.families() {
        let is_of_family = |slice: &Slice| slice.address_type == family.as_str();
        let (own, others) = slices.into_iter().partition(is_of_family);
        families.push((family, own));
        slices = others;
    }
    Ok((families, slices))
}
