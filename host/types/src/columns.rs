//! Columns: the values at some paths of an object, side by side. A row has no names and nothing that was not asked for, so
//! who reads many objects reads the least bytes there can be.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::path::Filter;
use crate::prune::PruneError;
use crate::{FieldPath, Mask, PathError, Step, Text};

/// Paths whose values make a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    root: Node,
    /// Of each column, whether its path leads to many values.
    many: Vec<bool>,
    mask: Mask,
}

/// What is read at one place of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// The columns whose path ends here.
    columns: Vec<usize>,
    /// What lies below, by the step that leads there.
    below: Vec<(Step, Node)>,
}

impl Columns {
    /// The columns of paths that are still text.
    ///
    /// # Errors
    /// One is no path.
    pub fn parse<T: AsRef<str>>(paths: impl IntoIterator<Item = T>) -> Result<Self, PathError> {
        let paths: Vec<FieldPath> = paths.into_iter().map(|path| path.as_ref().parse()).collect::<Result<_, _>>()?;
        Ok(Self::new(paths))
    }

    /// The columns of these paths.
    pub fn new(paths: impl IntoIterator<Item = FieldPath>) -> Self {
        let mut columns = Self { root: Node::default(), many: Vec::new(), mask: Mask::default() };
        for path in paths {
            columns.root.add(path.steps(), columns.many.len());
            columns.many.push(path.steps().contains(&Step::Each));
            columns.mask.add(&path);
        }
        columns
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.many.len()
    }

    /// The fields that are read.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Appends an object's row: a JSON array with one value for each column. It is `null` where there is none, and an array of
    /// all that there are where the path has a `[*]`. Where a filter means several elements, the first is taken.
    ///
    /// # Errors
    /// The bytes are not one JSON value.
    pub fn row(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), PruneError> {
        let mut found = Vec::with_capacity(self.many.len());
        let mut input = serde_json::Deserializer::from_slice(json);
        Read { nodes: &[&self.root], found: &mut found }.deserialize(&mut input)?;
        input.end()?;
        out.push(b'[');
        for (column, many) in self.many.iter().enumerate() {
            if column > 0 {
                out.push(b',');
            }
            let mut values = found.iter().filter(|(of, _)| *of == column).map(|(_, value)| value.get().as_bytes());
            if *many {
                out.push(b'[');
                for (at, value) in values.enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(value);
                }
                out.push(b']');
            } else {
                out.extend_from_slice(values.next().unwrap_or(b"null"));
            }
        }
        out.push(b']');
        Ok(())
    }
}

impl Node {
    fn add(&mut self, steps: &[Step], column: usize) {
        let Some((step, rest)) = steps.split_first() else { return self.columns.push(column) };
        let at = self.below.iter().position(|(own, _)| own == step).unwrap_or_else(|| {
            self.below.push((step.clone(), Self::default()));
            self.below.len() - 1
        });
        self.below[at].1.add(rest, column);
    }
}

/// Reads a value at which some nodes stand (more than one where both a name and `[*]` lead there).
struct Read<'n, 'f, 'a> {
    nodes: &'n [&'n Node],
    found: &'f mut Vec<(usize, &'a RawValue)>,
}

impl<'n, 'a> Read<'n, '_, 'a> {
    /// The nodes below for which the step leads on.
    fn below(&self, leads: impl Fn(&Step) -> bool) -> Vec<&'n Node> {
        let steps = self.nodes.iter().flat_map(|node| &node.below);
        steps.filter(|(step, _)| leads(step)).map(|(_, node)| node).collect()
    }

    fn has_filters(&self) -> bool {
        self.nodes.iter().flat_map(|node| &node.below).any(|(step, _)| matches!(step, Step::Where(_)))
    }
}

impl<'a> DeserializeSeed<'a> for Read<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, input: D) -> Result<(), D::Error> {
        let columns = || self.nodes.iter().flat_map(|node| &node.columns);
        if columns().next().is_none() {
            return input.deserialize_any(self);
        }
        let value: &'a RawValue = serde::Deserialize::deserialize(input)?;
        self.found.extend(columns().map(|column| (*column, value)));
        if self.nodes.iter().any(|node| !node.below.is_empty()) {
            // It is JSON: it was just read.
            value.deserialize_any(self).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }
}

impl<'a> Visitor<'a> for Read<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'a>>()? {
            let nodes = self.below(|step| match step {
                Step::Field(name) => **name == *key,
                Step::Each => true,
                Step::Where(_) => false,
            });
            match nodes.is_empty() {
                true => drop(map.next_value::<IgnoredAny>()?),
                false => map.next_value_seed(Read { nodes: &nodes, found: self.found })?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.has_filters() {
            while let Some(element) = seq.next_element::<&'a RawValue>()? {
                let means = |filter: &Filter| filter.matches(element);
                let nodes = self.below(|step| match step {
                    Step::Field(_) => false,
                    Step::Each => true,
                    Step::Where(filter) => means(filter),
                });
                let read = Read { nodes: &nodes, found: self.found };
                read.deserialize(element).map_err(serde::de::Error::custom)?;
            }
            return Ok(());
        }
        let nodes = self.below(|step| *step == Step::Each);
        if nodes.is_empty() {
            return IgnoredAny.visit_seq(seq).map(drop);
        }
        while seq.next_element_seed(Read { nodes: &nodes, found: self.found })?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"name":"a","labels":{"app":"web","x/y":"\"z\""}},"spec":{"containers":[{"name":"c"},
        {"name":"d","ports":[1,2]}]},"status":{"conditions":[{"type":"Ready","status":"True"},{"status":"False",
        "type":"Other"},{"type":"Ready","status":"second"}],"phase":null}}"#;

    fn row(paths: &[&str]) -> String {
        let mut out = Vec::new();
        Columns::parse(paths).unwrap().row(POD.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_has_a_value_for_each_column_in_their_order() {
        assert_eq!(
            row(&["metadata.labels['x/y']", "metadata.name", "spec.nodeName", "status.phase", "metadata.labels"]),
            r#"["\"z\"","a",null,null,{"app":"web","x/y":"\"z\""}]"#
        );
        assert_eq!(row(&[]), "[]");
    }

    #[test]
    fn a_path_to_each_element_makes_an_array_and_one_to_a_filtered_element_a_value() {
        assert_eq!(
            row(&[
                "spec.containers[*].name",
                "spec.containers[*].ports",
                "spec.containers[name=d].ports",
                "spec.none[*]"
            ]),
            r#"[["c","d"],[[1,2]],[1,2],[]]"#
        );
        assert_eq!(
            row(&["status.conditions[type=Ready].status", "status.conditions[type=Other].status"]),
            r#"["True","False"]"#
        );
        assert_eq!(row(&["metadata.labels[*]"]), r#"[["web","\"z\""]]"#);
    }

    #[test]
    fn a_field_can_be_in_several_columns_and_below_another_one() {
        assert_eq!(
            row(&["metadata.labels.app", "metadata.name", "metadata.labels", "metadata.name"]),
            r#"["web","a",{"app":"web","x/y":"\"z\""},"a"]"#
        );
        assert_eq!(row(&["metadata.labels[*]", "metadata.labels.app"]), r#"[["web","\"z\""],"web"]"#);
    }

    #[test]
    fn what_is_read_is_what_a_mask_of_the_paths_keeps() {
        let paths = ["spec.containers[name=d].ports", "metadata.name", "status.conditions[type=Ready].status"];
        let columns = Columns::parse(paths).unwrap();
        assert_eq!(columns.mask(), &Mask::parse(paths).unwrap());
        let (mut pruned, mut of_pruned, mut of_whole) = (Vec::new(), Vec::new(), Vec::new());
        columns.mask().prune(POD.as_bytes(), &mut pruned).unwrap();
        columns.row(&pruned, &mut of_pruned).unwrap();
        columns.row(POD.as_bytes(), &mut of_whole).unwrap();
        assert_eq!(of_pruned, of_whole);
    }

    #[test]
    fn what_is_no_path_or_no_json_is_refused() {
        assert!(Columns::parse(["a..b"]).is_err());
        for json in ["", "{", "{}{}"] {
            assert!(Columns::parse(["a"]).unwrap().row(json.as_bytes(), &mut Vec::new()).is_err(), "{json}");
        }
    }
}
