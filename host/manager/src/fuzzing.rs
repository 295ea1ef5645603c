//! What of the crate's insides the fuzzer feeds: not for use by anything else.

use serde_json::Value;

use crate::writer::merge;

/// Applies a merge patch.
pub fn merge(target: &mut Value, patch: Value) {
    merge::merge(target, patch);
}

/// The object that a `modify` puts, if there is one.
pub fn changed(base: Value, change: Value, subresource: &str, resource_version: &str) -> Option<Value> {
    merge::changed(base, change, subresource, resource_version)
}
