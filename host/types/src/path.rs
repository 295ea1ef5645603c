//! Field paths, such as `spec.containers[*].name`, `status.conditions[type=Ready].status` and
//! `metadata.annotations['example.com/note']`.
//!
//! Plugins use them for the fields that they read, index and watch. A path is looked up in a parsed value, or in the JSON
//! of one (see `search.rs`).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::search::{NotJson, field, search, strings_of_list, unescaped};

/// The maximum number of steps of a path. The lookup is recursive, and JSON is never nested deeper.
const MAX_STEPS: usize = 128;

/// The maximum length of a path in bytes. The key of an annotation has at most 317.
const MAX_LENGTH: usize = 4096;

/// A path to a field, to a field of each element of a list, or to the whole object (no steps).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// The field with this name.
    Field(Box<str>),
    /// Each element of a list, or each value of a map: `[*]`.
    Each,
    /// Each element of a list that is an object with this string in this field: `[type=Ready]`.
    Where(Filter),
}

/// Selects elements of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Filter {
    pub field: Box<str>,
    /// The string that the field must hold.
    pub value: Box<str>,
}

impl Filter {
    /// The bytes behind it.
    pub(crate) fn size(&self) -> usize {
        self.field.len() + self.value.len()
    }

    /// Whether the filter selects this element of a list, in JSON.
    pub(crate) fn matches(&self, element: &str) -> bool {
        let text = field(element, &self.field).and_then(unescaped);
        text.is_some_and(|text| *text == *self.value)
    }
}

/// The beginning of a text that is too long for a message.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(64).chain("…".chars()).collect()
}

/// A text that is not a field path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{path}` is not a field path: {problem}; write it as `spec.containers[*].name`, \
     `status.conditions[type=Ready]` or `metadata.labels['a.b/c']`"
)]
pub struct PathError {
    pub path: String,
    /// Describes the mistake in the text.
    pub problem: &'static str,
}

impl FieldPath {
    /// The path of the whole object: `.`.
    pub fn whole() -> Self {
        Self::default()
    }

    /// The path of nested fields.
    pub fn of_fields(fields: &[&str]) -> Self {
        Self {
            steps: fields
                .iter()
                .map(|field| Step::Field((*field).into()))
                .collect(),
        }
    }

    pub fn of_steps(steps: Vec<Step>) -> Self {
        Self { steps }
    }

    /// The steps from the top of the object; empty for the whole object.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Estimates the bytes that it holds.
    pub(crate) fn size(&self) -> usize {
        let step = |step: &Step| match step {
            Step::Field(name) => name.len(),
            Step::Each => 0,
            Step::Where(filter) => filter.size(),
        };
        let steps = self.steps.iter().map(|each| size_of::<Step>() + step(each));
        size_of::<Self>() + steps.sum::<usize>()
    }

    /// The strings at this path: a string, or each string of a list.
    pub fn lookup<'a>(&self, value: &'a Value) -> Vec<&'a str> {
        let mut found = Vec::new();
        walk(&self.steps, value, &mut |value| match value {
            Value::String(text) => found.push(text.as_str()),
            Value::Array(items) => found.extend(items.iter().filter_map(Value::as_str)),
            _ => {}
        });
        found
    }

    /// All values at this path in JSON that was parsed before. The search ends at a syntax error.
    pub fn select<'a>(&self, json: &'a [u8]) -> Vec<&'a str> {
        let mut found = Vec::new();
        if let Ok(json) = std::str::from_utf8(json) {
            let _ = search(json, &*self.steps, &mut |_, value| -> Result<(), NotJson> {
                found.push(value);
                Ok(())
            });
        }
        found
    }

    /// The strings at this path in JSON that was parsed before, as [`FieldPath::lookup`] finds them.
    pub fn strings<'a>(&self, json: &'a [u8]) -> Vec<Cow<'a, str>> {
        self.select(json).into_iter().flat_map(strings_in).collect()
    }
}

/// The strings of a value in JSON: the value itself, or each string of a list.
pub fn strings_in(value: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let is_list = value.starts_with('[');
    let one = (!is_list).then(|| unescaped(value)).flatten();
    let list = is_list.then(|| strings_of_list(value));
    one.into_iter().chain(list.into_iter().flatten())
}

fn walk<'a>(steps: &[Step], value: &'a Value, found: &mut impl FnMut(&'a Value)) {
    let Some((step, rest)) = steps.split_first() else {
        return found(value);
    };
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => {
            if let Some(value) = fields.get(&**name) {
                walk(rest, value, found);
            }
        }
        (Step::Each, Value::Array(items)) => {
            items.iter().for_each(|value| walk(rest, value, found))
        }
        (Step::Each, Value::Object(fields)) => {
            fields.values().for_each(|value| walk(rest, value, found))
        }
        (Step::Where(filter), Value::Array(items)) => {
            items
                .iter()
                .filter(|value| is_meant(filter, value))
                .for_each(|value| walk(rest, value, found));
        }
        _ => {}
    }
}

fn is_meant(filter: &Filter, element: &Value) -> bool {
    element.get(&*filter.field).and_then(Value::as_str) == Some(&*filter.value)
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self, PathError> {
        let fail = |problem| PathError {
            path: path.into(),
            problem,
        };
        if path.len() > MAX_LENGTH {
            return Err(PathError {
                path: shortened(path),
                problem: "it has more than 4096 bytes",
            });
        }
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
                let (name, after) = quoted
                    .split_once("']")
                    .ok_or_else(|| fail("a `['` has no `']`"))?;
                if name.is_empty() || name.contains('\'') {
                    return Err(fail("a quoted name is empty or holds a quote"));
                }
                steps.push(Step::Field(name.into()));
                rest = after;
            } else if let Some(filter) = rest.strip_prefix('[') {
                let (filter, after) = filter
                    .split_once(']')
                    .ok_or_else(|| fail("a `[` has no `]`"))?;
                let (field, value) = filter
                    .split_once('=')
                    .ok_or_else(|| fail("`[ ]` does not hold a filter"))?;
                if ![field, value].into_iter().all(is_word) {
                    return Err(fail(
                        "the field or the value of a filter is empty or has signs that it can't have",
                    ));
                }
                steps.push(Step::Where(Filter {
                    field: field.into(),
                    value: value.into(),
                }));
                rest = after;
            } else {
                if !steps.is_empty() {
                    rest = rest
                        .strip_prefix('.')
                        .ok_or_else(|| fail("a `.` or `[` is missing between two steps"))?;
                }
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                if !is_word(name) {
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

/// Whether a name or a value needs no quotes.
fn is_word(text: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"[]'\"*,/".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str(".");
        }
        for (i, step) in self.steps.iter().enumerate() {
            match step {
                Step::Each => f.write_str("[*]")?,
                Step::Where(Filter { field, value }) => write!(f, "[{field}={value}]")?,
                Step::Field(name)
                    if name.contains(|c: char| {
                        !c.is_alphanumeric() && c != '-' && c != '_' && c != '$'
                    }) =>
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
        for text in [
            ".",
            "spec.nodeName",
            "spec.containers[*].name",
            "status.conditions[type=Ready].status",
            "metadata.annotations['a.b/c']",
            "['a.b'].c[*][*]",
        ] {
            assert_eq!(text.parse::<FieldPath>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "", "..", "a.", ".a", "a..b", "a[0]", "a[*", "a['b", "a['']", "a b", "a[*]b", "a,b",
            "a/b", "a[b", "a[b=]", "a[=b]", "a[b=c/d]",
        ] {
            assert!(text.parse::<FieldPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_that_no_object_is_deep_enough_for_is_refused() {
        let of = |steps: usize| vec!["a"; steps].join(".").parse::<FieldPath>();
        assert!(of(MAX_STEPS).is_ok());
        for steps in [MAX_STEPS + 1, 2000] {
            assert!(of(steps).unwrap_err().problem.contains("levels"));
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_refused_and_not_repeated() {
        let error = "a".repeat(MAX_LENGTH + 1).parse::<FieldPath>().unwrap_err();
        assert!(
            error.problem.contains("4096 bytes") && error.path.len() < 100,
            "{error}"
        );
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
            ("spec.containers[name=a].name", vec!["a"]),
            ("spec.containers[name=none].name", vec![]),
            ("spec[name=a].name", vec![]),
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
