//! What of the crate's insides the fuzzer feeds: not for use by anything else.

use flyball_types::Kind;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::writer::merge;

/// What a merge patch makes of a JSON value.
///
/// # Errors
/// The value is not JSON.
pub fn merge(target: &RawValue, patch: &Value) -> Result<Vec<u8>, serde_json::Error> {
    let mut merged = Vec::new();
    merge::merge(Some(target), patch, &mut merged).map(|()| merged)
}

/// The object that a `modify` puts, if there is one.
///
/// # Errors
/// The base is no JSON object.
pub fn changed(
    base: &[u8],
    change: Value,
    kind: &Kind,
    subresource: &str,
    resource_version: &str,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    merge::changed(base, change, kind, subresource, resource_version)
}
