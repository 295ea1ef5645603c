//! The Go types that a pod template consists of.
//!
//! `types.txt` has a line for each named type, in their order: its name as the dump prints it, and
//! - `struct` and its fields: `Name:TYPE` if the field's name in JSON is `name`, `Name=json:TYPE` if it is another one, and
//!   `Name:...TYPE` for a struct whose fields are in the same JSON object;
//! - `special` for a type whose JSON is not that of its fields;
//! - the type that it has another name for: `string`, or `map[KEY]VALUE`.
//!
//! In a TYPE, `*`, `[]` and `map[KEY]` have Go's meaning.

use std::borrow::Cow;

const TYPES: &str = include_str!("../types.txt");

/// The lines of the types, by name.
pub(crate) struct Table(Vec<(&'static str, &'static str)>);

/// What values of a type consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape<'a> {
    /// A value of this type, or nil.
    Pointer(&'a str),
    /// Values of this type.
    List(&'a str),
    /// Values of this type, by name.
    Map(&'a str),
    /// The text of the fields: see [`Field::all`].
    Struct(&'static str),
    Text,
    Integer,
    Boolean,
    Special(Special),
}

/// Types that the dump has code for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    FieldsV1,
    IntOrString,
    Quantity,
    Time,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    /// Its name in JSON; `None` if its own fields are in the same JSON object.
    pub(crate) json: Option<Cow<'a, str>>,
    pub(crate) go_type: &'a str,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self(
            TYPES
                .lines()
                .filter_map(|line| line.split_once(' '))
                .collect(),
        )
    }

    /// Returns the shape of a type.
    ///
    /// # Panics
    /// The table lacks the type.
    pub(crate) fn shape<'a>(&self, name: &'a str) -> Shape<'a> {
        if let Some(shape) = unnamed(name) {
            return shape;
        }
        let index = self.0.binary_search_by_key(&name, |&(name, _)| name);
        let (_, definition) = self.0[index.expect("all types are in the table")];
        match definition.split_once(' ') {
            Some((_, fields)) => Shape::Struct(fields),
            None => unnamed(definition).unwrap_or_else(|| Shape::Special(special(name))),
        }
    }
}

/// The shape of a type without a name of its own.
fn unnamed(name: &str) -> Option<Shape<'_>> {
    if let Some(target) = name.strip_prefix('*') {
        return Some(Shape::Pointer(target));
    }
    if let Some(element) = name.strip_prefix("[]") {
        return Some(Shape::List(element));
    }
    if let Some((_, value)) = name
        .strip_prefix("map[")
        .and_then(|map| map.split_once(']'))
    {
        return Some(Shape::Map(value));
    }
    match name {
        "string" => Some(Shape::Text),
        "int32" | "int64" => Some(Shape::Integer),
        "bool" => Some(Shape::Boolean),
        _ => None,
    }
}

fn special(name: &str) -> Special {
    match name {
        "v1.FieldsV1" => Special::FieldsV1,
        "intstr.IntOrString" => Special::IntOrString,
        "resource.Quantity" => Special::Quantity,
        "v1.Time" => Special::Time,
        other => panic!("there is no code for the type {other}"),
    }
}

impl<'a> Field<'a> {
    /// Returns the fields of a struct.
    pub(crate) fn all(fields: &'a str) -> impl Iterator<Item = Self> {
        fields.split(' ').filter_map(Self::parse)
    }

    fn parse(text: &'a str) -> Option<Self> {
        let (names, go_type) = text.split_once(':')?;
        let (name, json) = names.split_once('=').unwrap_or((names, ""));
        let json = match (go_type.strip_prefix("..."), json) {
            (Some(_), _) => None,
            (None, "") => {
                let mut json = name.to_owned();
                json[..1].make_ascii_lowercase();
                Some(Cow::Owned(json))
            }
            (None, json) => Some(Cow::Borrowed(json)),
        };
        Some(Self {
            name,
            json,
            go_type: go_type.trim_start_matches("..."),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_type_in_the_table_has_a_shape() {
        let table = Table::new();
        let mut open = vec!["v1.PodTemplateSpec"];
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            match table.shape(name) {
                Shape::Pointer(inner) | Shape::List(inner) | Shape::Map(inner) => open.push(inner),
                Shape::Struct(fields) => {
                    let count = fields.split(' ').count();
                    let fields: Vec<_> = Field::all(fields).collect();
                    assert_eq!(fields.len(), count, "{name}");
                    open.extend(fields.into_iter().map(|field| field.go_type));
                }
                _ => {}
            }
        }
        let unused = table.0.iter().filter(|(name, _)| !seen.contains(name));
        assert_eq!(unused.map(|(name, _)| *name).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn fields_have_their_names_in_json() {
        let fields: Vec<_> = Field::all("HostIP:string TTY=tty:bool Source:...v1.Source").collect();
        let field = |name, json: Option<&'static str>, go_type| Field {
            name,
            json: json.map(Cow::Borrowed),
            go_type,
        };
        assert_eq!(
            fields,
            [
                field("HostIP", Some("hostIP"), "string"),
                field("TTY", Some("tty"), "bool"),
                field("Source", None, "v1.Source"),
            ]
        );
    }
}
