//! Errors of calls, as kube has them.

use flyball_types::ApiError;
pub use kube_core::Status;
use kube_core::response::StatusDetails;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server or the host refused the call. The reasons of the host are listed in `wit/types.wit`.
    #[error("ApiError: {0} ({0:?})")]
    Api(#[source] Box<Status>),
    /// A value that was read is not an object of the type, or a value to write is not valid JSON.
    #[error("Error deserializing response: {0}")]
    SerdeError(#[source] serde_json::Error),
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        let mut status = Status::failure(&error.message, &error.reason).with_code(error.status);
        if let Some(wait) = error.retry_after_ms {
            status = status.with_details(StatusDetails {
                name: String::new(),
                group: String::new(),
                kind: String::new(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: wait.div_ceil(1000),
            });
        }
        Self::Api(status.boxed())
    }
}

impl Error {
    /// A failure that the API server has not seen.
    pub(crate) fn local(code: u16, reason: &str, message: &str) -> Self {
        Self::Api(Status::failure(message, reason).with_code(code).boxed())
    }
}
