//! Makes JSON of a message: the fields that a mask keeps, in the order and in the form that the server's own JSON has.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flyball_types::Node;
use jiff::Timestamp;

use super::ProtobufError;
use super::schema::{self, Field, Message, Shape, Type};
use super::wire::{Fields, Value, only};

/// Makes JSON of objects, one after the other.
#[derive(Default)]
pub(crate) struct Transcoder<'a> {
    /// The fields that were found, of a message and of those that it is in: where in its schema each is, and what it holds.
    found: Vec<(u8, Value<'a>)>,
}

/// What is kept of a message.
#[derive(Clone, Copy)]
enum Keep<'m> {
    /// Of a whole object: all that a mask names, and of the metadata whatever indexes may need.
    Top(&'m Node),
    Metadata(&'m Node),
    Part(&'m Node),
}

impl<'m> Keep<'m> {
    /// What is kept of a field; none if nothing is.
    fn field(self, name: &str) -> Option<Self> {
        match self {
            Self::Top(node) if name == "metadata" => Some(Self::Metadata(node.field(name).unwrap_or(node))),
            Self::Metadata(_) if name == "managedFields" => None,
            // Annotations are what metadata is large by, and no index needs them.
            Self::Metadata(_) if name != "annotations" => Some(Self::Part(&Node::All)),
            Self::Top(node) | Self::Metadata(node) | Self::Part(node) => node.field(name).map(Self::Part),
        }
    }

    /// What is kept of each element of a list. What depends on the element is decided when the JSON is pruned.
    fn element(self) -> Option<Self> {
        let (Self::Top(node) | Self::Metadata(node) | Self::Part(node)) = self;
        if node.is_filtered() { Some(Self::Part(&Node::All)) } else { node.element().map(Self::Part) }
    }
}

impl<'a> Transcoder<'a> {
    /// Appends what a mask keeps of an object, and the metadata that an index may need.
    pub(crate) fn object(
        &mut self,
        kind: &str,
        raw: &'a [u8],
        node: &Node,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let message = schema::of_kind(kind).ok_or_else(|| ProtobufError::Kind(kind.into()))?;
        self.found.clear();
        self.message(message, raw, Keep::Top(node), out)
    }

    fn message(
        &mut self,
        message: &'static Message,
        bytes: &'a [u8],
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        out.push(b'{');
        self.fields(message, bytes, keep, out)?;
        out.push(b'}');
        Ok(())
    }

    fn fields(
        &mut self,
        message: &'static Message,
        bytes: &'a [u8],
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let begin = self.found.len();
        for field in Fields::new(bytes) {
            let (number, value) = field?;
            let place = message.place(number).ok_or(ProtobufError::Field { message: message.name, number })?;
            self.found.push((place as u8, value));
        }
        self.found[begin..].sort_by_key(|(place, _)| *place);
        let (mut at, end) = (begin, self.found.len());
        let mut always = message.always.iter().copied().peekable();
        loop {
            let found = self.found[at..end].first().map(|(place, _)| *place);
            let Some(place) = found.into_iter().chain(always.peek().copied()).min() else { break };
            always.next_if_eq(&place);
            let first = at;
            while at < end && self.found[at].0 == place {
                at += 1;
            }
            let field = &message.fields[usize::from(place)];
            if field.shape == Shape::Inline {
                let Type::Message(number) = field.of else { continue };
                let bytes = if first < at { self.found[at - 1].1.bytes()? } else { &[] };
                self.fields(schema::message(number), bytes, keep, out)?;
            } else if let Some(keep) = keep.field(field.name) {
                self.field(message, field, first..at, keep, out)?;
            }
        }
        self.found.truncate(begin);
        Ok(())
    }

    /// A field that came so often.
    fn field(
        &mut self,
        owner: &'static Message,
        field: &'static Field,
        found: std::ops::Range<usize>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let begin = out.len();
        key(field.name, out);
        let value = out.len();
        let last = found.clone().next_back().map(|at| self.found[at].1);
        let is_there = match (field.shape, last) {
            (Shape::List, Some(_)) => match keep.element() {
                None => false,
                Some(keep) => {
                    out.push(b'[');
                    for at in found {
                        separate(out);
                        self.value(owner, field, self.found[at].1, keep, out)?;
                    }
                    out.push(b']');
                    true
                }
            },
            (Shape::Map, Some(_)) => {
                out.push(b'{');
                for at in found {
                    self.entry(owner, field, self.found[at].1, keep, out)?;
                }
                out.push(b'}');
                true
            }
            (Shape::One, None) => match empty(field.of) {
                Some(empty) => self.value(owner, field, empty, keep, out)?,
                None => false,
            },
            (_, Some(found)) => self.value(owner, field, found, keep, out)?,
            (_, None) => false,
        };
        let is_zero = field.shape == Shape::One && matches!(&out[value..], b"\"\"" | b"0" | b"false");
        if field.optional && (!is_there || is_zero) {
            out.truncate(begin);
        } else if !is_there {
            out.truncate(value);
            out.extend_from_slice(b"null");
        }
        Ok(())
    }

    /// An entry of a map.
    fn entry(
        &mut self,
        owner: &'static Message,
        field: &'static Field,
        entry: Value<'a>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let (mut name, mut value) = ("", empty(field.of).unwrap_or(Value::Bytes(&[])));
        for part in Fields::new(entry.bytes()?) {
            match part? {
                (1, part) => name = part.text()?,
                (2, part) => value = part,
                _ => {}
            }
        }
        if let Some(keep) = keep.field(name) {
            separate(out);
            string(name, out);
            out.push(b':');
            if !self.value(owner, field, value, keep, out)? {
                out.extend_from_slice(b"null");
            }
        }
        Ok(())
    }

    /// One value; answers false, and writes nothing, if it is none.
    fn value(
        &mut self,
        owner: &'static Message,
        field: &'static Field,
        value: Value<'a>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, ProtobufError> {
        let wrong = || ProtobufError::Value { message: owner.name, field: field.name };
        match field.of {
            Type::String => string(value.text()?, out),
            Type::Quantity => {
                let text = Value::Bytes(only(value.bytes()?)?).text()?;
                string(if text.is_empty() { "0" } else { text }, out);
            }
            Type::Bool => out.extend_from_slice(if value.number()? == 0 { b"false" } else { b"true" }),
            Type::Int => write!(out, "{}", value.signed()?).map_err(|_| wrong())?,
            Type::Bytes => {
                out.push(b'"');
                let begin = out.len();
                let bytes = value.bytes()?;
                out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
                BASE64_STANDARD.encode_slice(bytes, &mut out[begin..]).map_err(|_| wrong())?;
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
                    return Ok(false);
                }
                let (mut seconds, mut nanos) = (0, 0);
                for part in Fields::new(bytes) {
                    match part? {
                        (1, part) => seconds = part.signed()?,
                        (2, part) => nanos = part.signed()?,
                        _ => {}
                    }
                }
                let nanos = i32::try_from(nanos).map_err(|_| wrong())?;
                if field.of == Type::Time {
                    let time = Timestamp::from_second(seconds).map_err(|_| wrong())?;
                    write!(out, "\"{time}\"").map_err(|_| wrong())?;
                } else {
                    // It is cut, not rounded.
                    let time = Timestamp::new(seconds, nanos / 1000 * 1000).map_err(|_| wrong())?;
                    write!(out, "\"{time:.6}\"").map_err(|_| wrong())?;
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
                    write!(out, "{number}").map_err(|_| wrong())?;
                }
            }
            Type::Raw => {
                let raw = only(value.bytes()?)?;
                if raw.is_empty() {
                    return Ok(false);
                }
                out.extend_from_slice(raw);
            }
            Type::Message(number) => self.message(schema::message(number), value.bytes()?, keep, out)?,
        }
        Ok(true)
    }
}

/// What a value is that did not come; none if that is `null` in JSON.
fn empty(of: Type) -> Option<Value<'static>> {
    match of {
        Type::Bool | Type::Int => Some(Value::Number(0)),
        Type::Bytes | Type::Values => None,
        _ => Some(Value::Bytes(&[])),
    }
}

/// Writes the comma before a key or an element, but for the first.
fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b'[')) {
        out.push(b',');
    }
}

fn key(name: &str, out: &mut Vec<u8>) {
    separate(out);
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Writes a string as Go does: what a page of HTML would take for a mark is escaped, too.
fn string(text: &str, out: &mut Vec<u8>) {
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
            // Only the first byte of one of those above.
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => {}
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Whether a character that begins with this byte may have to be escaped.
fn is_escaped(byte: u8) -> bool {
    // U+2028 and U+2029 begin with 0xe2.
    byte < 0x20 || matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}
