//! What the conditions say of a failed call.

use flyball_sdk::prelude::*;

/// What the API server said, in its own words; else what is known of why the call failed.
pub fn said(error: &Error) -> String {
    error
        .api()
        .map_or_else(|| error.to_string(), |refusal| refusal.message.clone())
}

/// Whether the server does not serve this kind or does not know the verb for it, whatever its
/// discovery says. A kind that is going away answers so, and some aggregated servers do.
pub fn is_not_supported(error: &ApiError) -> bool {
    error.is_method_not_supported() || error.is_not_found()
}
