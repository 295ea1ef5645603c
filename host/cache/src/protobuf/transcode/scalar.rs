//! Writes the values that are not messages.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flyball_types::{Node, separate};
use jiff::Timestamp;
use serde_json::value::RawValue;

use super::{FieldOf, Written};
use crate::protobuf::ProtobufError;
use crate::protobuf::schema::Type;
use crate::protobuf::wire::{Fields, Value, unwrap_message};

/// Writes a value that the mask keeps whole.
pub(super) fn write(
    of: FieldOf,
    value: Value<'_>,
    out: &mut Vec<u8>,
) -> Result<Written, ProtobufError> {
    match of.field.of {
        Type::Message(_) => {}
        Type::String => string(value.text()?, out),
        Type::Quantity => {
            let text = Value::Bytes(unwrap_message(value.bytes()?)?).text()?;
            string(if text.is_empty() { "0" } else { text }, out);
        }
        Type::Bool => out.extend_from_slice(if value.number()? == 0 {
            b"false"
        } else {
            b"true"
        }),
        Type::Int => write!(out, "{}", value.signed()?).map_err(|_| of.invalid())?,
        Type::Bytes => {
            out.push(b'"');
            let begin = out.len();
            let bytes = value.bytes()?;
            out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
            BASE64_STANDARD
                .encode_slice(bytes, &mut out[begin..])
                .map_err(|_| of.invalid())?;
            out.push(b'"');
        }
        Type::Values => {
            out.push(b'[');
            for part in Fields::new(value.bytes()?) {
                separate(out);
                string(part?.1.text()?, out);
            }
            out.push(b']');
        }
        Type::Time | Type::MicroTime => {
            let bytes = value.bytes()?;
            if bytes.is_empty() {
                return Ok(Written::Null);
            }
            let (mut seconds, mut nanos) = (0, 0);
            for part in Fields::new(bytes) {
                match part? {
                    (1, part) => seconds = part.signed()?,
                    (2, part) => nanos = part.signed()?,
                    _ => {}
                }
            }
            let nanos = i32::try_from(nanos).map_err(|_| of.invalid())?;
            if of.field.of == Type::Time {
                let time = Timestamp::from_second(seconds).map_err(|_| of.invalid())?;
                write!(out, "\"{time}\"").map_err(|_| of.invalid())?;
            } else {
                // Truncated rather than rounded, as Go does.
                let time =
                    Timestamp::new(seconds, nanos / 1000 * 1000).map_err(|_| of.invalid())?;
                write!(out, "\"{time:.6}\"").map_err(|_| of.invalid())?;
            }
        }
        Type::IntOrString => {
            let (mut is_string, mut number, mut text) = (false, 0, "");
            for part in Fields::new(value.bytes()?) {
                match part? {
                    (1, part) => is_string = part.number()? != 0,
                    (2, part) => number = part.signed()?,
                    (3, part) => text = part.text()?,
                    _ => {}
                }
            }
            if is_string {
                string(text, out);
            } else {
                write!(out, "{number}").map_err(|_| of.invalid())?;
            }
        }
        Type::Raw => {
            let raw = unwrap_message(value.bytes()?)?;
            if raw.is_empty() {
                return Ok(Written::Null);
            }
            out.extend_from_slice(raw);
        }
    }
    Ok(Written::Json)
}

/// Writes a value that is not a message and that the mask keeps in part: raw JSON, or a list.
pub(super) fn write_part(
    of: FieldOf,
    value: Value<'_>,
    node: &Node,
    out: &mut Vec<u8>,
) -> Result<Written, ProtobufError> {
    match of.field.of {
        Type::Raw => {
            let raw = unwrap_message(value.bytes()?)?;
            if raw.is_empty() {
                return Ok(Written::Null);
            }
            let raw: &RawValue = serde_json::from_slice(raw).map_err(|_| of.invalid())?;
            let is_some = node.prune(raw, out).map_err(|_| of.invalid())?;
            Ok(if is_some {
                Written::Json
            } else {
                Written::Dropped
            })
        }
        Type::Values if node.element().is_some() || node.is_filtered() => {
            out.push(b'[');
            for part in Fields::new(value.bytes()?) {
                if matches!(node.element(), Some(Node::All)) {
                    separate(out);
                    string(part?.1.text()?, out);
                }
            }
            out.push(b']');
            Ok(Written::Json)
        }
        _ => Ok(Written::Dropped),
    }
}

/// The value of a field that is not in the bytes; `None` if that is `null` in JSON.
pub(super) fn empty(of: Type) -> Option<Value<'static>> {
    match of {
        Type::Bool | Type::Int => Some(Value::Number(0)),
        Type::Bytes | Type::Values => None,
        _ => Some(Value::Bytes(&[])),
    }
}

/// Writes a string as Go's `encoding/json` does, which escapes HTML characters too.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_escaped) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut chars = escaped.chars();
        match chars.next() {
            Some(char @ ('"' | '\\')) => out.extend_from_slice(&[b'\\', char as u8]),
            Some('\n') => out.extend_from_slice(b"\\n"),
            Some('\r') => out.extend_from_slice(b"\\r"),
            Some('\t') => out.extend_from_slice(b"\\t"),
            Some('\u{8}') => out.extend_from_slice(b"\\b"),
            Some('\u{c}') => out.extend_from_slice(b"\\f"),
            Some(char) if (char as u32) < 0x80 || matches!(char, '\u{2028}' | '\u{2029}') => {
                out.extend_from_slice(format!("\\u{:04x}", char as u32).as_bytes());
            }
            // Another character with the first byte of U+2028 and U+2029.
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => {}
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Whether a character that begins with this byte may need an escape.
fn is_escaped(byte: u8) -> bool {
    // U+2028 and U+2029 begin with 0xe2.
    byte < 0x20 || matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}
