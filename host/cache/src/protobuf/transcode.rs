//! Transcodes messages to JSON: the fields that a mask keeps, in the order and form of the server's own JSON. `scalar`
//! writes the values that are not messages.

mod scalar;

use std::ops::Range;

use flyball_types::{Node, separate};

use super::ProtobufError;
use super::schema::{self, Field, Message, Shape, Type};
use super::wire::{Fields, Value};
use scalar::{empty, string};

/// Transcodes objects, one after the other. Reuses its buffers.
#[derive(Default)]
pub(crate) struct Transcoder<'a> {
    /// The decoded fields of the current message and of the messages around it: the index in the schema, and the value.
    found: Vec<(u8, Value<'a>)>,
    /// Selects the fields of `metadata` that are collected, whether the mask keeps them or not.
    collects: Option<fn(&str) -> bool>,
    /// The JSON of collected fields that the mask drops or prunes.
    aside: Vec<u8>,
    collected: Vec<Collected>,
}

/// A collected field of `metadata`, and the position of its JSON in `aside` or in the output.
struct Collected {
    field: &'static str,
    is_aside: bool,
    json: Range<usize>,
}

/// The part of a value that the mask keeps.
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

/// A field of a message in the schema.
#[derive(Clone, Copy)]
struct FieldOf {
    message: &'static Message,
    field: &'static Field,
}

/// The result of writing a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// JSON was written.
    Json,
    /// There is no value, and nothing was written.
    Null,
    /// The mask drops the value. The output is to be truncated.
    Dropped,
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

    /// The part of a field that is kept; `None` for none of it.
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
    /// Appends the part of an object that a mask keeps. Collects the fields of `metadata` that `collects` selects: see
    /// [`Transcoder::collected`].
    pub(crate) fn object(
        &mut self,
        kind: &str,
        raw: &'a [u8],
        node: &Node,
        collects: Option<fn(&str) -> bool>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtobufError> {
        let message = schema::of_kind(kind).ok_or_else(|| ProtobufError::Kind(kind.into()))?;
        self.found.clear();
        self.aside.clear();
        self.collected.clear();
        self.collects = collects;
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

    /// The collected fields of the last object's `metadata`, each with its JSON. `out` must be the unchanged output of
    /// [`Transcoder::object`].
    pub(crate) fn collected<'s>(
        &'s self,
        out: &'s [u8],
    ) -> impl Iterator<Item = (&'static str, &'s [u8])> {
        self.collected.iter().map(move |own| {
            let from = if own.is_aside { &self.aside } else { out };
            (own.field, &from[own.json.clone()])
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
            let of = FieldOf {
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
            if keep.level == Level::Metadata
                && self
                    .collects
                    .is_some_and(|collects| collects(of.field.name))
            {
                self.collect(of, first..at, kept, out)?;
            } else if let Some(keep) = kept {
                self.field(of, first..at, keep, out)?;
            }
        }
        self.found.truncate(begin);
        Ok(())
    }

    /// Writes a field of `metadata` and collects it whole, whatever the mask keeps of it.
    fn collect(
        &mut self,
        of: FieldOf,
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
        self.collected.extend(json.map(|json| Collected {
            field: of.field.name,
            is_aside,
            json,
        }));
        Ok(())
    }

    /// Writes a field with all values found for it. Returns the position of its value, if one was written.
    fn field(
        &mut self,
        of: FieldOf,
        found: Range<usize>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Range<usize>>, ProtobufError> {
        let begin = out.len();
        key(of.field.name, out);
        let value = out.len();
        let last = found.clone().next_back().map(|at| self.found[at].1);
        let written = match (of.field.shape, last) {
            (Shape::List, Some(_)) => self.list(of, found, keep.node, out)?,
            (Shape::Map, Some(_)) => self.map(of, found, keep, out)?,
            (Shape::One, None) => match empty(of.field.of) {
                Some(empty) => self.value(of, empty, keep, out)?,
                None => Written::Null,
            },
            (_, Some(found)) => self.value(of, found, keep, out)?,
            (_, None) => Written::Null,
        };
        let is_zero =
            of.field.shape == Shape::One && matches!(&out[value..], b"\"\"" | b"0" | b"false");
        let is_left_out = match written {
            Written::Json => of.field.optional && is_zero,
            Written::Null => of.field.optional || !keep.is_all(),
            Written::Dropped => true,
        };
        if is_left_out {
            out.truncate(begin);
            return Ok(None);
        }
        if written == Written::Null {
            out.extend_from_slice(b"null");
        }
        Ok(Some(value..out.len()))
    }

    fn list(
        &mut self,
        of: FieldOf,
        found: Range<usize>,
        node: &Node,
        out: &mut Vec<u8>,
    ) -> Result<Written, ProtobufError> {
        // The mask may select elements by their content, so these are written whole and pruned afterwards.
        let element = match node.element() {
            _ if node.is_filtered() => None,
            None => return Ok(Written::Dropped),
            element => element,
        };
        out.push(b'[');
        for at in found {
            let begin = out.len();
            let value = self.found[at].1;
            if let Some(element) = element {
                separate(out);
                if self.value(of, value, Keep::below(element), out)? == Written::Dropped {
                    out.truncate(begin);
                }
            } else {
                self.value(of, value, Keep::all(), out)?;
                let whole = out.split_off(begin);
                node.reduce_element(&whole, out).map_err(|_| of.invalid())?;
            }
        }
        out.push(b']');
        Ok(Written::Json)
    }

    fn map(
        &mut self,
        of: FieldOf,
        found: Range<usize>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Written, ProtobufError> {
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
                Written::Json => {}
                Written::Null if keep.is_all() => out.extend_from_slice(b"null"),
                Written::Null | Written::Dropped => out.truncate(begin),
            }
        }
        out.push(b'}');
        Ok(Written::Json)
    }

    /// Writes one value.
    fn value(
        &mut self,
        of: FieldOf,
        value: Value<'a>,
        keep: Keep<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Written, ProtobufError> {
        if let Type::Message(number) = of.field.of {
            self.message(schema::message(number), value.bytes()?, keep, out)?;
            return Ok(Written::Json);
        }
        if !keep.is_all() {
            return scalar::write_part(of, value, keep.node, out);
        }
        scalar::write(of, value, out)
    }
}

impl FieldOf {
    fn invalid(self) -> ProtobufError {
        ProtobufError::Value {
            message: self.message.name,
            field: self.field.name,
        }
    }
}

fn key(name: &str, out: &mut Vec<u8>) {
    separate(out);
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}
