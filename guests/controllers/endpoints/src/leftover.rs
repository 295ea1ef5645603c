//! Endpoints from before the start, whose Services may have been deleted while no controller ran
//! (kubernetes/kubernetes#6877).
//!
//! Upstream: pkg/controller/endpoint/endpoints_controller.go: checkLeftoverEndpoints.

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};
use flyball_service_endpoints::subsets::Endpoints;

/// Enqueues the Endpoints that exist at the start. Later ones may be created before their Services. Endpoints that are
/// the lock of a leader election have no Service.
///
/// # Errors
/// A delta is malformed.
pub fn route(deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
    let mut keys = Vec::new();
    for delta in deltas.iter().filter(|delta| delta.initial) {
        if let Some(endpoints) = delta.after::<Endpoints>()?
            && !endpoints.is_lock()
        {
            keys.push(RoutedKey::now(endpoints.meta.key()));
        }
    }
    Ok(keys)
}
