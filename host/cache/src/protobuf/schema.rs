//! The schema of Kubernetes' kinds in protobuf and in JSON. The Go program in `host/cache/schema` generates
//! `schema.txt` from Kubernetes' types. A line is a message, named as the Go type in
//! [`flyball_types::kubernetes_kinds`], and its fields in the order of the JSON. A field has a name, a number and a
//! type:
//!
//! ```text
//! core/v1.Volume: name:1:string 2:...core/v1.VolumeSource
//! ```
//!
//! The prefix of a type is `*` for a pointer, `[]` for a list, `{}` for a map, and `...` for an inlined struct. The
//! suffix `?` is `omitempty`: the JSON omits the field if it is empty. Lines are parsed on demand, since most kinds are
//! never used.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use flyball_types::kubernetes_kinds;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("schema.txt")));

struct Schema {
    /// The index in `lines` of each kind's message.
    kinds: HashMap<&'static str, u16>,
    /// Sorted by name.
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    fields: &'static str,
    message: OnceLock<Message>,
}

pub(super) struct Message {
    pub(super) name: &'static str,
    /// In the order of the JSON.
    pub(super) fields: Box<[Field]>,
    /// The indexes of the fields that the JSON has even if they are empty, and of the inlined ones.
    pub(super) always: Box<[u8]>,
    /// By field number: the index in `fields`, counted from 1; 0 if there is no such field.
    places: Box<[u8]>,
}

pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) of: Type,
    /// Whether the JSON omits the field if it is empty.
    pub(super) optional: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A value; empty if it is not in the bytes.
    One,
    /// A value; none if it is not in the bytes.
    Pointer,
    List,
    Map,
    /// A struct whose fields the JSON has in its place.
    Inline,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    String,
    Bool,
    Int,
    Bytes,
    /// A message with only a list of strings.
    Values,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON, copied verbatim.
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
        schema.kinds = kubernetes_kinds()
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
            .map(|part| Field::parse(part).unwrap_or_else(|| invalid(part)))
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

    /// The index in `fields` of a field number.
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

/// Fails for a part of the schema that can't be parsed: a bug of this program, which a test finds.
fn invalid(part: &str) -> ! {
    unreachable!("the schema has an invalid field {part:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_schema_can_be_parsed() {
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
