//! What the kinds look like in protobuf and in JSON: `schema.txt`, which the Go program in `host/cache/schema` makes of the
//! types of Kubernetes. A line is a kind and its message, as in
//!
//! ```text
//! v1/Pod = core/v1.Pod
//! ```
//!
//! or a message and its fields in the order of the JSON, each with its name, its number and its type:
//!
//! ```text
//! core/v1.Volume: name:1:string 2:...core/v1.VolumeSource
//! ```
//!
//! Before a type stands `*` if there may be none, `[]` if there are many, `{}` if there are many by name, and `...` if its
//! own fields stand in place of it; after it `?` if the JSON leaves it out where it is empty. Lines are read when they are
//! needed, since most kinds never are.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("schema.txt")));

struct Schema {
    /// The line of each kind's message.
    kinds: HashMap<&'static str, u16>,
    /// Sorted by name.
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    fields: &'static str,
    message: OnceLock<Message>,
}

/// A message.
pub(super) struct Message {
    pub(super) name: &'static str,
    /// In the order of the JSON.
    pub(super) fields: Box<[Field]>,
    /// Where those are that the JSON has even if they are empty, or that others stand in place of.
    pub(super) always: Box<[u8]>,
    /// Where a field of each number is in `fields`, counted from 1; 0 if there is none.
    places: Box<[u8]>,
}

/// A field of a message.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) of: Type,
    /// Whether the JSON leaves it out where it is empty.
    pub(super) optional: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Always there; empty if it does not come.
    One,
    /// There if it comes.
    Pointer,
    List,
    Map,
    /// Its own fields stand in place of it.
    Inline,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    String,
    Bool,
    Int,
    Bytes,
    /// A list in a message of its own.
    Values,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON as it is.
    Raw,
    Message(u16),
}

/// The message of a kind.
pub(super) fn of_kind(kind: &str) -> Option<&'static Message> {
    SCHEMA.kinds.get(kind).copied().map(message)
}

/// A message that a field holds.
pub(super) fn message(number: u16) -> &'static Message {
    let line = &SCHEMA.lines[usize::from(number)];
    line.message.get_or_init(|| Message::parse(line))
}

impl Schema {
    fn parse(text: &'static str) -> Self {
        let line = |(name, fields)| Line {
            name,
            fields,
            message: OnceLock::new(),
        };
        let lines = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(line)
            .collect();
        let mut schema = Self {
            kinds: HashMap::new(),
            lines,
        };
        let kinds = text.lines().filter_map(|line| line.split_once(" = "));
        schema.kinds = kinds
            .filter_map(|(kind, message)| Some((kind, schema.find(message)?)))
            .collect();
        schema
    }

    fn find(&self, message: &str) -> Option<u16> {
        self.lines
            .binary_search_by_key(&message, |line| line.name)
            .ok()
            .map(|at| at as u16)
    }
}

impl Message {
    fn parse(line: &Line) -> Self {
        let parts = line.fields.split(' ').filter(|part| !part.is_empty());
        let fields: Vec<(usize, Field)> = parts
            .map(|part| Field::parse(part).unwrap_or_else(|| wrong(part)))
            .collect();
        let highest = fields.iter().map(|(number, _)| *number).max().unwrap_or(0);
        let mut places = vec![0; highest + 1];
        for (at, (number, _)) in fields.iter().enumerate() {
            places[*number] = at as u8 + 1;
        }
        let fields: Box<[Field]> = fields.into_iter().map(|(_, field)| field).collect();
        let always = (0..)
            .zip(&fields)
            .filter(|(_, field)| !field.optional)
            .map(|(place, _)| place)
            .collect();
        Self {
            name: line.name,
            fields,
            always,
            places: places.into(),
        }
    }

    /// Where the field of this number is.
    pub(super) fn place(&self, number: u32) -> Option<usize> {
        usize::from(*self.places.get(number as usize)?).checked_sub(1)
    }
}

impl Field {
    fn parse(part: &'static str) -> Option<(usize, Self)> {
        if let Some((number, message)) = part.split_once(":...") {
            let of = Type::Message(SCHEMA.find(message)?);
            return Some((
                number.parse().ok()?,
                Self {
                    name: "",
                    shape: Shape::Inline,
                    of,
                    optional: false,
                },
            ));
        }
        let mut parts = part.splitn(3, ':');
        let (name, number, of) = (parts.next()?, parts.next()?, parts.next()?);
        let (of, optional) = of.strip_suffix('?').map_or((of, false), |of| (of, true));
        let marks = [
            ("*", Shape::Pointer),
            ("[]", Shape::List),
            ("{}", Shape::Map),
        ];
        let marked = marks
            .iter()
            .find_map(|(mark, shape)| Some((of.strip_prefix(mark)?, *shape)));
        let (of, shape) = marked.unwrap_or((of, Shape::One));
        let of = match of {
            "string" => Type::String,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "bytes" => Type::Bytes,
            "values" => Type::Values,
            "time" => Type::Time,
            "micro-time" => Type::MicroTime,
            "quantity" => Type::Quantity,
            "int-or-string" => Type::IntOrString,
            "raw" => Type::Raw,
            message => Type::Message(SCHEMA.find(message)?),
        };
        Some((
            number.parse().ok()?,
            Self {
                name,
                shape,
                of,
                optional,
            },
        ))
    }
}

/// A part of the schema that can't be read: a fault of this program, which a test finds.
fn wrong(part: &str) -> ! {
    unreachable!("the schema has {part:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_schema_can_be_read() {
        assert!(SCHEMA.lines.is_sorted_by_key(|line| line.name));
        assert!(
            !SCHEMA.kinds.is_empty() && SCHEMA.kinds.keys().all(|kind| of_kind(kind).is_some())
        );
        for number in 0..SCHEMA.lines.len() {
            let message = message(number as u16);
            assert!(
                message.fields.len() < usize::from(u8::MAX),
                "{}",
                message.name
            );
        }
    }

    #[test]
    fn fields_are_found_by_their_number() {
        let pod = of_kind("v1/Pod").unwrap();
        assert_eq!(pod.place(2).map(|at| pod.fields[at].name), Some("spec"));
        assert!(
            pod.place(0).is_none() && pod.place(4).is_none() && of_kind("v1/Nothing").is_none()
        );
    }
}
