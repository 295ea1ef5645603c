//! evictionrequest-controller: turns EvictionRequests into Evictions, and hands these from responder to responder (KEP-4563).
//!
//! Anybody who wants a pod to be evicted creates an EvictionRequest. All requests for a pod share one Eviction. Its status
//! names the responders, one of which is active at a time; it evicts the pod in its own way and reports in the same status.
//!
//! `reconcile` has three kinds of keys, by queue:
//!
//! - Evictions: [`eviction`] writes their statuses: the requesters, the [`responders`] and the conditions;
//! - EvictionRequests: [`request`] creates Evictions, and copies their conditions;
//! - Evictions again: [`metadata`] applies their labels and owners, because the API server takes these only apart from a status.
//!
//! Keys wake each other by their common target: [`route`].
//!
//! Upstream: pkg/controller/evictionrequest/evictionrequest_controller.go: NewController, Run.

pub mod conditions;
mod describe;
pub mod eviction;
pub mod metadata;
pub mod names;
pub mod relevant;
pub mod request;
pub mod requesters;
pub mod responders;
pub mod route;
pub mod target;
pub mod terminal;
pub mod views;
pub mod write;

#[cfg(test)]
mod tests;

use flyball_sdk::prelude::*;
use flyball_sdk::{Delta, RoutedKey};

/// The name of the controller, and of the manager of the fields that it applies.
const NAME: &str = "evictionrequest-controller";
/// The queue of Evictions whose status is reconciled.
const EVICTIONS: &str = "evictionrequest-controller_eviction";
/// The queue of EvictionRequests.
const REQUESTS: &str = "evictionrequest-controller_eviction_request";
/// The queue of Evictions whose labels and owners are reconciled.
const METADATA: &str = "evictionrequest-controller_eviction_metadata_refresh";

/// The controller.
pub struct EvictionRequests;

export!(EvictionRequests);

impl Controller for EvictionRequests {
    fn describe() -> Description {
        describe::description()
    }

    fn reconcile(host: &Host, request: &Request) -> Result<Outcome, Error> {
        match request.queue.as_str() {
            REQUESTS => request::reconcile(host, &request.key),
            METADATA => metadata::reconcile(host, &request.key),
            _ => eviction::reconcile(host, &request.key),
        }
    }

    fn route(host: &Host, deltas: &[Delta]) -> Result<Vec<RoutedKey>, Error> {
        route::route(host, deltas)
    }
}
