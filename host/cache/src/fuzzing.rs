//! Internal functions that the fuzzer and the tests call. Not for other use.

use flyball_types::Mask;

use crate::{DecodeError, protobuf};

/// Transcodes an object from protobuf to JSON, reduced to what a mask keeps.
///
/// # Errors
/// The body is not an object in protobuf, or its kind or a field of it is not in the schema.
pub fn transcode_protobuf(body: &[u8], mask: &Mask) -> Result<Vec<u8>, DecodeError> {
    Ok(protobuf::to_json(body, mask.root())?)
}
