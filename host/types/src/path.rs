//! Field paths, written `spec.containers[*].name` or `metadata.annotations['example.com/note']`: what plugins read, index
//! and watch. A path is found either in a parsed value or, without one, in JSON bytes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::Text;

/// Steps that a path may have: no JSON that is read here lies deeper, and what walks a path calls itself for each step.
const MAX_STEPS: usize = 128;

/// A path to a field, to fields of each element of a list, or to the whole object (no steps).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Into the field of that name.
    Field(Box<str>),
    /// Into each element of a list, or each value of a map: `[*]`.
    Each,
}

/// A text that is not a field path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a field path: {problem}; write it as `spec.containers[*].name` or `metadata.labels['a.b/c']`")]
pub struct PathError {
    /// What was given.
    pub path: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl FieldPath {
    /// The path of all that there is: `.`.
    pub fn whole() -> Self {
        Self::default()
    }

    /// The path of these fields, one within the other.
    pub fn of_fields(fields: &[&str]) -> Self {
        Self { steps: fields.iter().map(|field| Step::Field((*field).into())).collect() }
    }

    /// The path of these steps.
    pub fn of_steps(steps: Vec<Step>) -> Self {
        Self { steps }
    }

    /// Its steps, from the top of the object; none for the whole object.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The strings at this path: the string itself, or each string of the list that lies there.
    pub fn lookup<'a>(&self, value: &'a Value) -> Vec<&'a str> {
        let mut found = Vec::new();
        walk(&self.steps, value, &mut |value| match value {
            Value::String(text) => found.push(text.as_str()),
            Value::Array(items) => found.extend(items.iter().filter_map(Value::as_str)),
            _ => {}
        });
        found
    }

    /// All values at this path in JSON bytes, without parsing anything else into values. JSON that is broken before the
    /// path is found ends the search.
    pub fn select<'a>(&self, json: &'a [u8]) -> Vec<&'a RawValue> {
        let mut found = Vec::new();
        let mut input = serde_json::Deserializer::from_slice(json);
        let _ = Select { steps: &self.steps, found: &mut found }.deserialize(&mut input);
        found
    }

    /// The strings at this path in JSON bytes, as [`FieldPath::lookup`] finds them.
    pub fn strings<'a>(&self, json: &'a [u8]) -> Vec<Cow<'a, str>> {
        let mut found = Vec::new();
        for value in self.select(json) {
            match value.get().as_bytes().first() {
                Some(b'"') => found.extend(Text::of_raw(value).map(|text| text.0)),
                Some(b'[') => {
                    let items: Vec<&RawValue> = serde_json::from_str(value.get()).unwrap_or_default();
                    found.extend(items.into_iter().filter_map(Text::of_raw).map(|text| text.0));
                }
                _ => {}
            }
        }
        found
    }
}

fn walk<'a>(steps: &[Step], value: &'a Value, found: &mut impl FnMut(&'a Value)) {
    let Some((step, rest)) = steps.split_first() else { return found(value) };
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => {
            if let Some(value) = fields.get(&**name) {
                walk(rest, value, found);
            }
        }
        (Step::Each, Value::Array(items)) => items.iter().for_each(|value| walk(rest, value, found)),
        (Step::Each, Value::Object(fields)) => fields.values().for_each(|value| walk(rest, value, found)),
        _ => {}
    }
}

struct Select<'p, 'a> {
    steps: &'p [Step],
    found: &'p mut Vec<&'a RawValue>,
}

impl<'a> DeserializeSeed<'a> for Select<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, input: D) -> Result<(), D::Error> {
        if self.steps.is_empty() {
            self.found.push(serde::Deserialize::deserialize(input)?);
            Ok(())
        } else {
            input.deserialize_any(self)
        }
    }
}

impl<'a> Visitor<'a> for Select<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let (step, rest) = self.steps.split_first().expect("the last step was taken by deserialize");
        while let Some(key) = map.next_key::<Text<'a>>()? {
            if matches!(step, Step::Each) || matches!(step, Step::Field(name) if **name == *key) {
                map.next_value_seed(Select { steps: rest, found: self.found })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        let (step, rest) = self.steps.split_first().expect("the last step was taken by deserialize");
        if matches!(step, Step::Field(_)) {
            return IgnoredAny.visit_seq(seq).map(|_| ());
        }
        while seq.next_element_seed(Select { steps: rest, found: self.found })?.is_some() {}
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

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self, PathError> {
        let fail = |problem| PathError { path: path.into(), problem };
        if path == "." {
            return Ok(Self::whole());
        }
        let mut steps = Vec::new();
        let mut rest = path;
        loop {
            if let Some(after) = rest.strip_prefix("[*]") {
                steps.push(Step::Each);
                rest = after;
            } else if let Some(quoted) = rest.strip_prefix("['") {
                let (name, after) = quoted.split_once("']").ok_or_else(|| fail("a `['` has no `']`"))?;
                if name.is_empty() || name.contains('\'') {
                    return Err(fail("a quoted name is empty or holds a quote"));
                }
                steps.push(Step::Field(name.into()));
                rest = after;
            } else {
                if !steps.is_empty() {
                    rest = rest.strip_prefix('.').ok_or_else(|| fail("a `.` or `[` is missing between two steps"))?;
                }
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"]'\"*,/".contains(c);
                if name.is_empty() || !name.chars().all(is_plain) {
                    return Err(fail("a name is empty or must be quoted"));
                }
                steps.push(Step::Field(name.into()));
                rest = after;
            }
            if steps.len() > MAX_STEPS {
                return Err(fail("it has more steps than an object has levels"));
            }
            if rest.is_empty() {
                return Ok(Self { steps });
            }
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str(".");
        }
        for (i, step) in self.steps.iter().enumerate() {
            match step {
                Step::Each => f.write_str("[*]")?,
                Step::Field(name)
                    if name.contains(|c: char| !c.is_alphanumeric() && c != '-' && c != '_' && c != '$') =>
                {
                    write!(f, "['{name}']")?;
                }
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_reads_back_as_it_was_written() {
        for text in
            [".", "spec.nodeName", "spec.containers[*].name", "metadata.annotations['a.b/c']", "['a.b'].c[*][*]"]
        {
            assert_eq!(text.parse::<FieldPath>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", "..", "a.", ".a", "a..b", "a[0]", "a[*", "a['b", "a['']", "a b", "a[*]b", "a,b", "a/b"] {
            assert!(text.parse::<FieldPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_that_no_object_is_deep_enough_for_is_refused() {
        let of = |steps: usize| vec!["a"; steps].join(".").parse::<FieldPath>();
        assert!(of(MAX_STEPS).is_ok());
        for steps in [MAX_STEPS + 1, 1_000_000] {
            assert!(of(steps).unwrap_err().problem.contains("levels"));
        }
    }

    #[test]
    fn strings_are_found_in_values_and_in_bytes_alike() {
        let object = json!({
            "spec": {"nodeName": "n1", "containers": [{"name": "a"}, {"name": "b\n"}, 3], "finalizers": ["x", "y"], "n": 1},
            "metadata": {"annotations": {"a.b/c": "note"}},
        });
        let bytes = serde_json::to_vec(&object).unwrap();
        for (path, expected) in [
            ("spec.nodeName", vec!["n1"]),
            ("spec.containers[*].name", vec!["a", "b\n"]),
            ("spec.finalizers", vec!["x", "y"]),
            ("spec.finalizers[*]", vec!["x", "y"]),
            ("metadata.annotations['a.b/c']", vec!["note"]),
            ("metadata.annotations[*]", vec!["note"]),
            ("spec.n", vec![]),
            ("spec.none.of.it", vec![]),
            ("spec.nodeName.x", vec![]),
        ] {
            let path: FieldPath = path.parse().unwrap();
            assert_eq!(path.lookup(&object), expected, "{path}");
            assert_eq!(path.strings(&bytes), expected, "{path}");
        }
    }
}
