//! Makes objects of JSON, in one pass.

/// Bytes that are not an object of the API. No retry can help.
#[derive(Debug, thiserror::Error)]
#[error("can't decode an object of the API: {0}")]
pub struct DecodeError(pub(crate) String);
