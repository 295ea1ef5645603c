//! What of the crate's insides the fuzzer feeds: not for use by anything else.

mod guest_calls;
mod plugin_view;

use serde_json::Value;
use serde_json::value::RawValue;

pub use self::guest_calls::{GuestCalls, HostCalls};
pub use self::plugin_view::PluginView;
use crate::writer::merge;
pub use crate::writer::merge::{updated, with_status};

/// What a merge patch makes of a JSON value.
///
/// # Errors
/// The value is not JSON.
pub fn merge(target: &RawValue, patch: &Value) -> Result<Vec<u8>, serde_json::Error> {
    let mut merged = Vec::new();
    merge::merge(Some(target), patch, &mut merged).map(|()| merged)
}
