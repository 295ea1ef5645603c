//! Errors in conditions.

use flyball_sdk::prelude::*;

/// The API server's message, or else the whole error.
pub fn failure_message(error: &Error) -> String {
    error
        .api()
        .map_or_else(|| error.to_string(), |error| error.message.clone())
}

/// Whether the server does not serve this kind or verb, even if discovery reports it. This happens
/// when a kind is being removed, and with some aggregated servers.
pub fn is_not_supported(error: &ApiError) -> bool {
    error.is_method_not_supported() || error.is_not_found()
}
