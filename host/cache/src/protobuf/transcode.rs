//! Makes JSON of a message: the fields that a mask keeps, in the order and in the form that the server's own JSON has.

use std::io::Write;
use std::ops::Range;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flyball_types::{Node, separate};
use jiff::Timestamp;
use serde_json::value::RawValue;

use super::ProtobufError;
use super::schema::{self, Field, Message, Shape, Type};
use super::wire::{Fields, Value, only};

/// Makes JSON of objects, one after the other.
#[derive(Default)]
pub(crate) struct Transcoder<'a> {
    /// The fields that were found, of a message and of those that it is in: where in its schema each is, and what it holds.
    found: Vec<(u8, Value<'a>)>,
    /// Which fields of the metadata are to be shown.
    wants: Option<fn(&str) -> bool>,
    /// What was to be shown of the metadata, but is not kept.
    aside: Vec<u8>,
    shown: Vec<Shown>,
}

/// A field of the metadata, and where its JSON is: aside or in what is kept.
struct Shown {
    field: &'static str,
    is_aside: bool,
    json: Range<usize>,
}

/// What is kept at some place of an object.
#[derive(Clone, Copy)]
struct Keep<'m> {
    node: &'m Node,
    level: Level,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    Metadata,
    Below,
}

/// A field of a message, or all that has its type.
#[derive(Clone, Copy)]
struct Of {
    message: &'static Message,
    field: &'static Field,
}

/// What came of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Json,
    /// There is no value.
    Null,
    /// Nothing of it is kept.
    Nothing,
}

impl<'m> Keep<'m> {
    fn all() -> Self {
        Self::below(&Node::All)
    }

    fn below(node: &'m Node) -> Self {
        Self {
            node,
            level: Level::Below,
        }
    }

    /// What is kept of a field; none if nothing is.
    fn field(self, name: &str) -> Option<Self> {
        let level = match self.level {
            Level::Metadata if name == "managedFields" => return None,
            Level::Object if name == "metadata" => Level::Metadata,
            _ => Level::Below,
        };
        self.node.field(name).map(|node| Self { node, level })
    }

    fn is_all(self) -> bool {
        self.level == Level::Below && matches!(self.node, Node::All)
    }
}

impl<'a> Transcoder<'a> {
    /// Appends what a mask keeps of an object. Of its metadata, what is wanted can be seen after that, whether it is kept or
    /// not.
    pub(crate) fn object(
        &mut self,
        kind: &str,
        raw: &'a [u8],
        node: &Node,
        wants: Option<fn(&str) -> bool>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let message = schema::of_kind(kind).ok_or_else(|| ProtobufError::Kind(kind.into()))?;
        self.found.clear();
        self.aside.clear();
        self.shown.clear();
        self.wants = wants;
        self.message(
            message,
            raw,
            Keep {
                node,
                level: Level::Object,
            },
            out,
        )
    }

    /// What was wanted of the metadata of the object that was made last: each field and its JSON. `out` is as it was then.
    pub(crate) fn shown<'s>(
        &'s self,
        out: &'s [u8],
    ) -> impl Iterator<Item = (&'static str, &'s [u8])> {
        self.shown.iter().map(move |shown| {
            let from = if shown.is_aside { &self.aside } else { out };
            (shown.field, &from[shown.json.clone()])
        })
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
            let place = message.place(number).ok_or(ProtobufError::Field {
                message: message.name,
                number,
            })?;
            self.found.push((place as u8, value));
        }
        self.found[begin..].sort_by_key(|(place, _)| *place);
        let (mut at, end) = (begin, self.found.len());
        let mut always = message.always.iter().copied().peekable();
        loop {
            let found = self.found[at..end].first().map(|(place, _)| *place);
            let Some(place) = found.into_iter().chain(always.peek().copied()).min() else {
                break;
            };
            always.next_if_eq(&place);
            let first = at;
            while at < end && self.found[at].0 == place {
                at += 1;
            }
            let of = Of {
                message,
                field: &message.fields[usize::from(place)],
            };
            if of.field.shape == Shape::Inline {
                let Type::Message(number) = of.field.of else {
                    continue;
                };
                let bytes = if first < at {
                    self.found[at - 1].1.bytes()?
                } else {
                    &[]
                };
                self.fields(schema::message(number), bytes, keep, out)?;
                continue;
            }
            let kept = keep.field(of.field.name);
            if keep.level == Level::Metadata && self.wants.is_some_and(|wants| wants(of.field.name))
            {
                self.show(of, first..at, kept, out)?;
            } else if let Some(keep) = kept {
                self.field(of, first..at, keep, out)?;
            }
        }
        self.found.truncate(begin);
        Ok(())
    }

    /// A field of the metadata that is wanted whole, whatever is kept of it.
    fn show(
        &mut self,
        of: Of,
        found: Range<usize>,
        kept: Option<Keep<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let is_aside = !kept.is_some_and(Keep::is_all);
        let json = if is_aside {
            if let Some(keep) = kept {
                self.field(of, found.clone(), keep, out)?;
            }
            let mut aside = std::mem::take(&mut self.aside);
            let json = self.field(of, found, Keep::all(), &mut aside);
            self.aside = aside;
            json?
        } else {
            self.field(of, found, Keep::all(), out)?
        };
        self.shown.extend(json.map(|json| Shown {
            field: of.field.name,
            is_aside,
            json,
        }));
        Ok(())
    }

    /// A field that came so often. Answers where its value is, if it is written.
    fn field(
        &mut self,
        of: Of,
        found: Range<usize>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Range<usize>>, ProtobufError> {
        let begin = out.len();
        key(of.field.name, out);
        let value = out.len();
        let last = found.clone().next_back().map(|at| self.found[at].1);
        let made = match (of.field.shape, last) {
            (Shape::List, Some(_)) => self.list(of, found, keep.node, out)?,
            (Shape::Map, Some(_)) => self.map(of, found, keep, out)?,
            (Shape::One, None) => match empty(of.field.of) {
                Some(empty) => self.value(of, empty, keep, out)?,
                None => Made::Null,
            },
            (_, Some(found)) => self.value(of, found, keep, out)?,
            (_, None) => Made::Null,
        };
        let is_zero =
            of.field.shape == Shape::One && matches!(&out[value..], b"\"\"" | b"0" | b"false");
        let is_left_out = match made {
            Made::Json => of.field.optional && is_zero,
            Made::Null => of.field.optional || !keep.is_all(),
            Made::Nothing => true,
        };
        if is_left_out {
            out.truncate(begin);
            return Ok(None);
        }
        if made == Made::Null {
            out.extend_from_slice(b"null");
        }
        Ok(Some(value..out.len()))
    }

    fn list(
        &mut self,
        of: Of,
        found: Range<usize>,
        node: &Node,
        out: &mut Vec<u8>,
    ) -> Result<Made, ProtobufError> {
        // What is kept of an element may depend on all of it.
        let element = match node.element() {
            _ if node.is_filtered() => None,
            None => return Ok(Made::Nothing),
            element => element,
        };
        out.push(b'[');
        for at in found {
            let begin = out.len();
            let value = self.found[at].1;
            if let Some(element) = element {
                separate(out);
                if self.value(of, value, Keep::below(element), out)? == Made::Nothing {
                    out.truncate(begin);
                }
            } else {
                self.value(of, value, Keep::all(), out)?;
                let whole = out.split_off(begin);
                let element: &RawValue = serde_json::from_slice(&whole).map_err(|_| of.wrong())?;
                node.prune_element(element, out).map_err(|_| of.wrong())?;
            }
        }
        out.push(b']');
        Ok(Made::Json)
    }

    fn map(
        &mut self,
        of: Of,
        found: Range<usize>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Made, ProtobufError> {
        out.push(b'{');
        for at in found {
            let (mut name, mut value) = ("", empty(of.field.of).unwrap_or(Value::Bytes(&[])));
            for part in Fields::new(self.found[at].1.bytes()?) {
                match part? {
                    (1, part) => name = part.text()?,
                    (2, part) => value = part,
                    _ => {}
                }
            }
            let Some(keep) = keep.field(name) else {
                continue;
            };
            let begin = out.len();
            separate(out);
            string(name, out);
            out.push(b':');
            match self.value(of, value, keep, out)? {
                Made::Json => {}
                Made::Null if keep.is_all() => out.extend_from_slice(b"null"),
                Made::Null | Made::Nothing => out.truncate(begin),
            }
        }
        out.push(b'}');
        Ok(Made::Json)
    }

    /// One value.
    fn value(
        &mut self,
        of: Of,
        value: Value<'a>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Made, ProtobufError> {
        if let Type::Message(number) = of.field.of {
            self.message(schema::message(number), value.bytes()?, keep, out)?;
            return Ok(Made::Json);
        }
        if !keep.is_all() {
            return part(of, value, keep.node, out);
        }
        match of.field.of {
            Type::Message(_) => {}
            Type::String => string(value.text()?, out),
            Type::Quantity => {
                let text = Value::Bytes(only(value.bytes()?)?).text()?;
                string(if text.is_empty() { "0" } else { text }, out);
            }
            Type::Bool => out.extend_from_slice(if value.number()? == 0 {
                b"false"
            } else {
                b"true"
            }),
            Type::Int => write!(out, "{}", value.signed()?).map_err(|_| of.wrong())?,
            Type::Bytes => {
                out.push(b'"');
                let begin = out.len();
                let bytes = value.bytes()?;
                out.resize(begin + bytes.len().div_ceil(3) * 4, 0);
                BASE64_STANDARD
                    .encode_slice(bytes, &mut out[begin..])
                    .map_err(|_| of.wrong())?;
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
                    return Ok(Made::Null);
                }
                let (mut seconds, mut nanos) = (0, 0);
                for part in Fields::new(bytes) {
                    match part? {
                        (1, part) => seconds = part.signed()?,
                        (2, part) => nanos = part.signed()?,
                        _ => {}
                    }
                }
                let nanos = i32::try_from(nanos).map_err(|_| of.wrong())?;
                if of.field.of == Type::Time {
                    let time = Timestamp::from_second(seconds).map_err(|_| of.wrong())?;
                    write!(out, "\"{time}\"").map_err(|_| of.wrong())?;
                } else {
                    // It is cut, not rounded.
                    let time =
                        Timestamp::new(seconds, nanos / 1000 * 1000).map_err(|_| of.wrong())?;
                    write!(out, "\"{time:.6}\"").map_err(|_| of.wrong())?;
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
                    write!(out, "{number}").map_err(|_| of.wrong())?;
                }
            }
            Type::Raw => {
                let raw = only(value.bytes()?)?;
                if raw.is_empty() {
                    return Ok(Made::Null);
                }
                out.extend_from_slice(raw);
            }
        }
        Ok(Made::Json)
    }
}

impl Of {
    fn wrong(self) -> ProtobufError {
        ProtobufError::Value {
            message: self.message.name,
            field: self.field.name,
        }
    }
}

/// What is kept of a value that is no message, where not all is: of one that is JSON, or of a list.
fn part(of: Of, value: Value<'_>, node: &Node, out: &mut Vec<u8>) -> Result<Made, ProtobufError> {
    match of.field.of {
        Type::Raw => {
            let raw = only(value.bytes()?)?;
            if raw.is_empty() {
                return Ok(Made::Null);
            }
            let raw: &RawValue = serde_json::from_slice(raw).map_err(|_| of.wrong())?;
            let is_some = node.prune(raw, out).map_err(|_| of.wrong())?;
            Ok(if is_some { Made::Json } else { Made::Nothing })
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
            Ok(Made::Json)
        }
        _ => Ok(Made::Nothing),
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
