//! The credentials that a client presents to the API server in addition to its connection's own.

use flyball_types::ApiError;
use futures::future::BoxFuture;
use http::HeaderValue;

/// A source of bearer tokens.
pub trait Credentials: Send + Sync {
    /// Returns the value of the `Authorization` header for a request that starts now.
    fn bearer(&self) -> BoxFuture<'_, Result<HeaderValue, ApiError>>;

    /// Notes that the server refused the last token, so that the next request gets a new one.
    fn refused(&self);
}
