//! Reconciles changed nodes: enqueues the Services whose hints no longer suit the zones.
//!
//! Upstream: pkg/controller/endpointslice/endpointslice_controller.go: checkNodeTopologyDistribution.
//! Upstream: staging/src/k8s.io/endpointslice/topologycache/topologycache.go: GetOverloadedServices.

use std::collections::BTreeSet;

use flyball_sdk::prelude::*;
use flyball_service_endpoints::ip::Family;
use flyball_service_endpoints::service::Service;
use flyball_service_endpoints::slice;

use crate::describe::{BY_HINTS, BY_MODE, QUEUE};
use crate::labels::MANAGER;
use crate::views::NodeCapacity;
use crate::zones::{self, Ratios};

/// Enqueues each Service one of whose zones has too few endpoints.
///
/// # Errors
/// Nodes, Services or slices can't be read.
pub fn reconcile(host: &Host) -> Result<Outcome, Error> {
    let services = hinted_services(host)?;
    if services.is_empty() {
        return Ok(Outcome::Done);
    }
    let ratios = ratios(host)?;
    for key in services {
        if is_overloaded(host, &key, ratios.as_ref())? {
            host.queue().add(QUEUE, &key)?;
        }
    }
    Ok(Outcome::Done)
}

/// Reads the shares of the zones in the CPUs of all nodes.
///
/// # Errors
/// A node is malformed.
pub fn ratios(host: &Host) -> Result<Option<Ratios>, Error> {
    Ok(zones::ratios(&host.list::<NodeCapacity>().all()?))
}

/// The Services whose annotations ask for hints.
fn hinted_services(host: &Host) -> Result<BTreeSet<Key>, Error> {
    let mut keys = BTreeSet::new();
    for (index, value) in [
        (BY_MODE, "Auto"),
        (BY_MODE, "auto"),
        (BY_HINTS, "Auto"),
        (BY_HINTS, "auto"),
    ] {
        host.list::<Service>().index(index, value).each(|service| {
            if service.wants_zone_hints() {
                keys.insert(service.meta.key());
            }
            Ok(())
        })?;
    }
    Ok(keys)
}

fn is_overloaded(host: &Host, key: &Key, ratios: Option<&Ratios>) -> Result<bool, Error> {
    let slices = slice::of_service(host, &key.namespace, &key.name, MANAGER)?;
    Ok(Family::ALL.iter().any(|family| {
        let own = (slices.iter()).filter(|slice| slice.address_type == family.as_str());
        zones::is_overloaded(&zones::hinted(own), ratios)
    }))
}
