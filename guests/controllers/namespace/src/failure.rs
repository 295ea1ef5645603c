//! Errors in conditions.
//!
//! Upstream: pkg/controller/namespace/deletion/namespaced_resources_deleter.go: deleteCollection, listCollection.

use flyball_sdk::prelude::*;

/// The API server's message, or else the whole error.
pub fn failure_message(error: &Error) -> String {
    error
        .api()
        .map_or_else(|| error.to_string(), |error| error.message.clone())
}

/// Whether the server does not serve this kind or verb, even if discovery reports it. This happens
/// when a kind is being removed, and with some aggregated servers. A server that does not know the verb may say
/// `NotFound` instead of `MethodNotAllowed` (kubernetes/kubernetes#22413).
pub fn is_not_supported(error: &ApiError) -> bool {
    error.is_method_not_supported() || error.is_not_found()
}
