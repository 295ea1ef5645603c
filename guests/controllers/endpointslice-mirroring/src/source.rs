//! Decides whether Endpoints are mirrored.
//!
//! Upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go: shouldMirror, syncEndpoints.
//! Upstream: pkg/controller/endpointslicemirroring/utils.go: skipMirror, hasLeaderElection.

use flyball_sdk::StringMap;
use flyball_sdk::prelude::*;
use flyball_service_endpoints::subsets::LEADER;

/// The label of Endpoints that are not mirrored: `true`.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Endpoints, without their addresses. Most Endpoints belong to Services that select pods; endpointslice-controller
/// creates the slices of these.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Endpoints")]
pub struct Source {
    #[view(path = "metadata", fields("labels", "annotations"))]
    pub meta: Meta,
}

/// The Service of Endpoints.
#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/Service")]
pub struct Service {
    #[view(path = "metadata.name")]
    pub name: String,
    #[view(path = "spec.selector")]
    pub selector: StringMap,
}

/// Whether the Endpoints with this key exist and are mirrored: their Service has no selector, and neither a label nor
/// the record of a leader election prevents it.
///
/// # Errors
/// An object is malformed.
pub fn is_mirrored(host: &Host, key: &Key) -> Result<bool, Error> {
    let Some(source) = host.get_by_key::<Source>(key)? else {
        return Ok(false);
    };
    if source.meta.label(SKIP_MIRROR) == Some("true") || source.meta.annotation(LEADER).is_some() {
        return Ok(false);
    }
    let service = host.get_by_key::<Service>(key)?;
    Ok(service.is_some_and(|service| service.selector.is_empty()))
}
