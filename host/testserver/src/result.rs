//! The result of a call.

use flyball_sdk::ApiError;
use serde::Serialize;
use serde_json::Value;

/// Why a call has no result.
pub(crate) enum Failure {
    /// The controller gets this error.
    Error(ApiError),
    /// The call is wrong.
    Mistake(String),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

impl From<String> for Failure {
    fn from(mistake: String) -> Self {
        Self::Mistake(mistake)
    }
}

pub(crate) type Result = std::result::Result<Value, Failure>;

/// A value as the result of a call.
pub(crate) fn ok(value: impl Serialize) -> Result {
    serde_json::to_value(value).map_err(|error| Failure::Mistake(error.to_string()))
}
