//! What of the crate's insides the fuzzer feeds: not for use by anything else.

use flyball_types::Mask;

use crate::{DecodeError, protobuf};

/// What a mask keeps of an object in protobuf, as JSON.
///
/// # Errors
/// It is no object in protobuf, or of a kind or with a field that is not known.
pub fn of_protobuf(body: &[u8], mask: &Mask) -> Result<Vec<u8>, DecodeError> {
    Ok(protobuf::to_json(body, mask.root())?)
}
