//! endpoints-controller: keeps the Endpoints of Services that select pods.
//!
//! `reconcile` names the steps. Each decision is a pure function:
//!
//! 1. [`desired`] computes the subsets from the Service's pods.
//! 2. [`truncate`] limits their addresses to 1,000.
//! 3. [`object`] computes labels and annotations, and decides whether there is anything to write.
//!
//! Endpoints without a Service are deleted when the controller starts ([`leftover`]), and when their Service is
//! deleted.
//!
//! Upstream: pkg/controller/endpoint/endpoints_controller.go: syncService.

pub mod describe;
pub mod desired;
pub mod leftover;
pub mod object;
pub mod truncate;

#[cfg(test)]
mod tests;

use flyball_sdk::error::is_namespace_terminating;
use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};
use flyball_service_endpoints::pod;
use flyball_service_endpoints::ports::PortFinder;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::settings;
use flyball_service_endpoints::subsets::Endpoints;
use flyball_service_endpoints::trigger::Times;

use desired::Addresses;

/// The controller. Keys are Services, and the Endpoints of the same names.
pub struct EndpointsController;

export!(EndpointsController);

impl Controller for EndpointsController {
    fn describe() -> Description {
        describe::describe(std::time::Duration::ZERO)
    }

    fn describe_configured(host: &Host) -> Description {
        describe::describe(settings::batch_period(host))
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        settings::check(host)?;
        match host.get_by_key::<Service>(&request.key)? {
            None => delete(host, &request.key)?,
            Some(service) if service.has_endpoints() => sync(host, &service)?,
            // Other clients maintain the Endpoints of this Service.
            Some(_) => {}
        }
        Ok(Outcome::Done)
    }

    fn route(_: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        leftover::route(deltas)
    }
}

/// Deletes the Endpoints of a Service that does not exist.
fn delete(host: &Host, key: &Key) -> Result<(), Error> {
    if let Some(endpoints) = host.get_by_key::<Endpoints>(key)? {
        host.delete(Endpoints::KIND, &endpoints.meta)
            .found()
            .doing(|| format!("deleting Endpoints {key}"))?;
    }
    Ok(())
}

/// Brings the Endpoints of a Service up to date.
fn sync(host: &Host, service: &Service) -> Result<(), Error> {
    let ports = PortFinder::read(host, service)?;
    let (mut addresses, mut times) = (Addresses::of(service, &ports), Times::of(service));
    pod::each_of_service(host, service, |pod| {
        times.add(&pod);
        addresses.add(pod);
    })?;
    let changed_at = times.last_change(host, service);
    let mut subsets = addresses.into_subsets();
    let is_truncated = truncate::truncate(&mut subsets);
    let current = host.get_by_key::<Endpoints>(&service.meta.key())?;
    let desired = object::Desired {
        service,
        subsets,
        is_truncated,
        changed_at,
    };
    let Some(write) = desired.write(current.as_ref()) else {
        return Ok(());
    };
    match host.write(write) {
        Ok(_) => Ok(()),
        // Further creations would fail too, until the namespace is deleted.
        Err(error) if current.is_none() && is_namespace_terminating(&error) => Ok(()),
        Err(error) => {
            warn(host, service, current.as_ref(), &error);
            Err(error.into())
        }
    }
}

/// Emits an event about a failed write.
fn warn(host: &Host, service: &Service, current: Option<&Endpoints>, error: &ApiError) {
    let key = service.meta.key();
    let (reason, message, uid) = match current {
        None => (
            "FailedToCreateEndpoint",
            format!(
                "Failed to create endpoint for service {key}: {}",
                error.message
            ),
            "",
        ),
        Some(current) => (
            "FailedToUpdateEndpoint",
            format!("Failed to update endpoint {key}: {}", error.message),
            current.meta.uid.as_str(),
        ),
    };
    let about = flyball_sdk::ObjectReference {
        uid: uid.into(),
        ..service.meta.reference(Endpoints::KIND)
    };
    host.emit(Event::warning(&about, reason, &message));
}
