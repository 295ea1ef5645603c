//! Decodes the API server's protobuf, which costs the server and the host much less than JSON. The fields that a mask
//! keeps are transcoded to the JSON that the server would have sent; the others are skipped without decoding. The rest
//! of the crate handles only JSON.
//!
//! `schema` has the messages of each kind, `wire` decodes their bytes, and `transcode` writes the JSON. A field that is
//! not in the schema, such as one of a later release, is an error: the reflector then requests the kind as JSON, so
//! that no field is lost.

mod schema;
mod transcode;
mod wire;

use flyball_types::{Kind, Node};

pub(crate) use transcode::Transcoder;
use wire::{Fields, Value, WireError};

use crate::object::ObjectVersion;

/// The first bytes of every object in protobuf.
const MAGIC: &[u8] = b"k8s\0";

/// Protobuf that can't be decoded. The same object may be decodable as JSON.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error("the protobuf is incomplete or invalid: {0}")]
    Wire(#[from] WireError),
    #[error("the kind {0:?} is not in the schema")]
    Kind(String),
    #[error("field {number} of {message} is not in the schema")]
    Field { message: &'static str, number: u32 },
    #[error("{message}.{field} has an invalid value")]
    Value {
        message: &'static str,
        field: &'static str,
    },
}

/// Whether objects of a kind can be decoded from protobuf.
pub(crate) fn knows(kind: &Kind) -> bool {
    schema::of_kind(&kind.to_string()).is_some()
}

/// Whether a body is an object in protobuf, rather than JSON.
pub(crate) fn is_object(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// Whether the bytes of a watch begin with a protobuf frame, rather than a line of JSON. A frame begins with its
/// big-endian length, whose first byte is zero because no object reaches 16 MiB.
pub(crate) fn is_frame(stream: &[u8]) -> bool {
    stream.first() == Some(&0)
}

/// The length of the complete frames at the start of a stream.
pub(crate) fn whole_frames(stream: &[u8]) -> usize {
    let mut end = 0;
    while let Some(length) = frame_length(&stream[end..]) {
        end += length;
    }
    end
}

/// The length of the first frame, including its length prefix; `None` if the frame is incomplete.
fn frame_length(stream: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*stream.first_chunk()?);
    Some(size_of_val(&length) + length as usize).filter(|length| *length <= stream.len())
}

/// Transcodes the part of an object that a mask keeps to JSON.
pub(crate) fn to_json(body: &[u8], node: &Node) -> Result<Vec<u8>, ProtobufError> {
    let (mut json, object) = (Vec::new(), Envelope::open(body)?);
    Transcoder::default().object(&object.kind, object.raw, node, None, &mut json)?;
    Ok(json)
}

/// An encoded object and its kind: the server's `runtime.Unknown`.
pub(crate) struct Envelope<'a> {
    /// For example `apps/v1/Deployment`.
    pub(crate) kind: String,
    pub(crate) raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub(crate) fn open(body: &'a [u8]) -> Result<Self, ProtobufError> {
        let body = body.strip_prefix(MAGIC).ok_or(WireError)?;
        let (mut api_version, mut kind, mut raw) = ("", "", &[][..]);
        for field in Fields::new(body) {
            match field? {
                (1, Value::Bytes(types)) => {
                    for field in Fields::new(types) {
                        match field? {
                            (1, value) => api_version = value.text()?,
                            (2, value) => kind = value.text()?,
                            _ => {}
                        }
                    }
                }
                (2, Value::Bytes(bytes)) => raw = bytes,
                // A content encoding or a content type, which the API server does not set.
                (3 | 4, Value::Bytes(bytes)) if !bytes.is_empty() => return Err(WireError.into()),
                _ => {}
            }
        }
        Ok(Self {
            kind: format!("{api_version}/{kind}"),
            raw,
        })
    }

    /// The UID and the resource version. Missing values are empty.
    pub(crate) fn uid_and_version(&self) -> Result<(&'a str, &'a str), ProtobufError> {
        let (mut uid, mut version) = ("", "");
        for field in Fields::new(wire::unwrap_message(self.raw)?) {
            match field? {
                (5, value) => uid = value.text()?,
                (6, value) => version = value.text()?,
                _ => {}
            }
        }
        Ok((uid, version))
    }

    /// The identity and the version. The metadata is the first field of every kind.
    pub(crate) fn object_version(&self) -> Result<ObjectVersion, ProtobufError> {
        let mut object = ObjectVersion::default();
        for field in Fields::new(wire::unwrap_message(self.raw)?) {
            match field? {
                (1, value) => object.name = value.text()?.into(),
                (3, value) => object.namespace = value.text()?.into(),
                (5, value) => object.uid = value.text()?.into(),
                (6, value) => object.resource_version = value.text()?.into(),
                _ => {}
            }
        }
        Ok(object)
    }
}

/// An event of a watch.
pub(crate) struct Frame<'a> {
    /// For example `ADDED`.
    pub(crate) event_type: &'a str,
    pub(crate) object: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Opens the first frame of a stream, and returns it with the rest of the stream.
    pub(crate) fn open(stream: &'a [u8]) -> Result<(Self, &'a [u8]), ProtobufError> {
        let length = frame_length(stream).ok_or(WireError)?;
        let (frame, rest) = stream.split_at(length);
        let (mut event_type, mut object) = ("", &[][..]);
        for field in Fields::new(&frame[size_of::<u32>()..]) {
            match field? {
                (1, value) => event_type = value.text()?,
                (2, Value::Bytes(raw)) => object = wire::unwrap_message(raw)?,
                _ => {}
            }
        }
        Ok((Self { event_type, object }, rest))
    }
}

/// A page of a list.
#[derive(Default)]
pub(crate) struct List<'a> {
    /// The kind of its items.
    pub(crate) kind: String,
    pub(crate) resource_version: &'a str,
    /// The token of the next page; empty for the last page.
    pub(crate) next: &'a str,
    pub(crate) items: Vec<&'a [u8]>,
}

impl<'a> List<'a> {
    pub(crate) fn open(body: &'a [u8]) -> Result<Self, ProtobufError> {
        let Envelope { kind, raw } = Envelope::open(body)?;
        let kind = kind
            .strip_suffix("List")
            .ok_or_else(|| ProtobufError::Kind(kind.clone()))?;
        let mut list = Self {
            kind: kind.into(),
            ..Self::default()
        };
        for field in Fields::new(raw) {
            match field? {
                (1, Value::Bytes(metadata)) => {
                    for field in Fields::new(metadata) {
                        match field? {
                            (2, value) => list.resource_version = value.text()?,
                            (3, value) => list.next = value.text()?,
                            _ => {}
                        }
                    }
                }
                (2, Value::Bytes(item)) => list.items.push(item),
                _ => {}
            }
        }
        Ok(list)
    }
}

/// Encodes protobuf as the server does, for tests.
#[cfg(test)]
pub(crate) mod samples {
    use super::MAGIC;

    /// A length-delimited field.
    pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [
            &[
                number << 3 | 2,
                u8::try_from(bytes.len()).expect("a short field"),
            ],
            bytes,
        ]
        .concat()
    }

    pub(crate) fn object(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &types), &field(2, raw)].concat()
    }

    pub(crate) fn frame(event_type: &str, object: &[u8]) -> Vec<u8> {
        let event = [field(1, event_type.as_bytes()), field(2, &field(1, object))].concat();
        [&(event.len() as u32).to_be_bytes()[..], &event].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{field, frame, object};
    use super::*;

    #[test]
    fn lists_and_events_are_opened() {
        let stream = [
            frame("ADDED", &object("v1", "Pod", b"")),
            frame("DELETED", &object("v1", "Pod", b"")),
        ]
        .concat();
        assert_eq!(whole_frames(&stream), stream.len());
        let first = whole_frames(&stream[..stream.len() - 1]);
        assert_eq!(
            (first, whole_frames(&stream[..first - 1])),
            (stream.len() - "DELETED".len() + "ADDED".len() - first, 0)
        );
        let (one, rest) = Frame::open(&stream).unwrap();
        let (two, none) = Frame::open(rest).unwrap();
        assert_eq!(
            (one.event_type, two.event_type, none.len()),
            ("ADDED", "DELETED", 0)
        );
        assert_eq!(Envelope::open(two.object).unwrap().kind, "v1/Pod");
        let metadata = [field(2, b"7"), field(3, b"next")].concat();
        let raw = [field(1, &metadata), field(2, b"one"), field(2, b"two")].concat();
        let body = object("apps/v1", "ReplicaSetList", &raw);
        let list = List::open(&body).unwrap();
        assert_eq!(
            (&*list.kind, list.resource_version, list.next),
            ("apps/v1/ReplicaSet", "7", "next")
        );
        assert_eq!(list.items, [b"one", b"two"]);
    }

    #[test]
    fn empty_values_are_written_as_the_server_does() {
        let deployment = [field(1, &field(1, b"a<b")), field(2, &[]), field(3, &[])].concat();
        let json = to_json(&object("apps/v1", "Deployment", &deployment), &Node::All).unwrap();
        assert_eq!(
            std::str::from_utf8(&json),
            Ok(
                r#"{"metadata":{"name":"a\u003cb"},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#
            )
        );
    }

    #[test]
    fn a_kind_or_field_outside_the_schema_is_an_error() {
        let error = |body: &[u8]| to_json(body, &Node::All).unwrap_err().to_string();
        assert_eq!(
            error(&object("v1", "Pod", &field(9, b""))),
            "field 9 of core/v1.Pod is not in the schema"
        );
        assert_eq!(
            error(&object("v1", "Podd", b"")),
            "the kind \"v1/Podd\" is not in the schema"
        );
        assert!(
            to_json(b"{}", &Node::All).is_err() && to_json(b"k8s\0\x0a\x10", &Node::All).is_err()
        );
        let with_content_type = [MAGIC, &field(4, b"application/json")].concat();
        assert!(Envelope::open(&with_content_type).is_err());
    }
}
