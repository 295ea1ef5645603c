//! The API server's protobuf, which costs it and us a fraction of what JSON does: what a mask keeps of a message becomes
//! the JSON that the server would have sent, and the rest is skipped unread. Everything after that is as with JSON.
//!
//! What the kinds look like is in `schema`, how messages are made of bytes in `wire`. A field that the schema does not know
//! (the server is of a later release) is an error: then the kind is read as JSON, so that nothing is lost.

mod schema;
mod transcode;
mod wire;

use flyball_types::{Kind, Node};

pub(crate) use transcode::Transcoder;
use wire::{Fields, Value, WireError};

use crate::answer::Head;

/// What every object in protobuf begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Protobuf that can't be read. JSON may be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error("protobuf that ends early or is none: {0}")]
    Wire(#[from] WireError),
    #[error("the kind {0:?} is not known in protobuf")]
    Kind(String),
    #[error("{message} has a field {number} that is not known")]
    Field { message: &'static str, number: u32 },
    #[error("{message}.{field} is not what it should be")]
    Value {
        message: &'static str,
        field: &'static str,
    },
}

/// Whether objects of a kind can be read in protobuf.
pub(crate) fn knows(kind: &Kind) -> bool {
    schema::of_kind(&kind.to_string()).is_some()
}

/// Whether this is an object in protobuf, and no JSON.
pub(crate) fn is_object(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// Whether these bytes of a watch begin with an event in protobuf, and not with a line of JSON. It begins with its length, of
/// which the first byte is zero: the server takes no object of 16 MiB.
pub(crate) fn is_frame(stream: &[u8]) -> bool {
    stream.first() == Some(&0)
}

/// How long all the events are of which nothing is missing.
pub(crate) fn whole_frames(stream: &[u8]) -> usize {
    let mut end = 0;
    while let Some(length) = frame_length(&stream[end..]) {
        end += length;
    }
    end
}

/// How long the first event is, with the length that it begins with; none if something of it is missing.
fn frame_length(stream: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*stream.first_chunk()?);
    Some(size_of_val(&length) + length as usize).filter(|length| *length <= stream.len())
}

/// What is kept of an object, as JSON.
pub(crate) fn to_json(body: &[u8], node: &Node) -> Result<Vec<u8>, ProtobufError> {
    let (mut json, object) = (Vec::new(), Envelope::open(body)?);
    Transcoder::default().object(&object.kind, object.raw, node, None, &mut json)?;
    Ok(json)
}

/// An object and its kind.
pub(crate) struct Envelope<'a> {
    /// As in `apps/v1/Deployment`.
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
                // Written in another way, if at all: nothing of the API is.
                (3 | 4, Value::Bytes(bytes)) if !bytes.is_empty() => return Err(WireError.into()),
                _ => {}
            }
        }
        Ok(Self {
            kind: format!("{api_version}/{kind}"),
            raw,
        })
    }

    /// Which version of which object it is: its UID, and its resource version. Empty is what is not there.
    pub(crate) fn version(&self) -> Result<(&'a str, &'a str), ProtobufError> {
        let (mut uid, mut version) = ("", "");
        for field in Fields::new(wire::only(self.raw)?) {
            match field? {
                (5, value) => uid = value.text()?,
                (6, value) => version = value.text()?,
                _ => {}
            }
        }
        Ok((uid, version))
    }

    /// Which object it is. All have their metadata in the first field; nothing else is read.
    pub(crate) fn head(&self) -> Result<Head, ProtobufError> {
        let mut head = Head::default();
        for field in Fields::new(wire::only(self.raw)?) {
            match field? {
                (1, value) => head.name = value.text()?.into(),
                (3, value) => head.namespace = value.text()?.into(),
                (6, value) => head.resource_version = value.text()?.into(),
                _ => {}
            }
        }
        Ok(head)
    }
}

/// An event of a watch.
pub(crate) struct Frame<'a> {
    /// As in `ADDED`.
    pub(crate) event_type: &'a str,
    pub(crate) object: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Opens the first of some whole events; answers what follows it, too.
    pub(crate) fn open(stream: &'a [u8]) -> Result<(Self, &'a [u8]), ProtobufError> {
        let length = frame_length(stream).ok_or(WireError)?;
        let (frame, rest) = stream.split_at(length);
        let (mut event_type, mut object) = ("", &[][..]);
        for field in Fields::new(&frame[size_of::<u32>()..]) {
            match field? {
                (1, value) => event_type = value.text()?,
                (2, Value::Bytes(raw)) => object = wire::only(raw)?,
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
    /// Asks for the next page; empty at the last one.
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

/// Protobuf as the server writes it, for tests.
#[cfg(test)]
pub(crate) mod samples {
    use super::MAGIC;

    /// A field that is bytes.
    pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [
            &[
                number << 3 | 2,
                u8::try_from(bytes.len()).expect("a short one"),
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
    fn what_is_empty_is_shown_as_the_server_does() {
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
    fn what_the_schema_does_not_know_is_an_error_and_not_lost() {
        let error = |body: &[u8]| to_json(body, &Node::All).unwrap_err().to_string();
        assert_eq!(
            error(&object("v1", "Pod", &field(9, b""))),
            "core/v1.Pod has a field 9 that is not known"
        );
        assert_eq!(
            error(&object("v1", "Podd", b"")),
            "the kind \"v1/Podd\" is not known in protobuf"
        );
        assert!(
            to_json(b"{}", &Node::All).is_err() && to_json(b"k8s\0\x0a\x10", &Node::All).is_err()
        );
        let written_otherwise = [MAGIC, &field(4, b"application/json")].concat();
        assert!(Envelope::open(&written_otherwise).is_err());
    }
}
