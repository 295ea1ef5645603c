//! Finds out from their text that two JSON values differ in a string, without parsing either.
//!
//! Upstream: pkg/controller/deployment/util/deployment_util.go: EqualIgnoreHash.

/// Whether two JSON texts differ first in a string that both have at the same place, and that is
/// compared as it is. False if that is not certain: the values may then be equal, because they are
/// formatted differently, or because absent and empty fields, escapes or quantities mean the same.
///
/// `is_other` tells, by the name of a string's field and the name of the object that has the field,
/// whether different strings may mean the same. An element of a list has an empty name.
pub fn differ_in_a_string(one: &str, other: &str, is_other: impl Fn(&str, &str) -> bool) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let Some(place) = Place::after(&one[..same]) else {
        return false;
    };
    let has_no_escape = |text: &[u8]| {
        let rest = text[place.start..].iter();
        rest.take_while(|byte| **byte != b'"')
            .all(|byte| *byte != b'\\')
    };
    has_no_escape(one) && has_no_escape(other) && !is_other(place.field, place.parent)
}

/// The place in a JSON text of a string that is a value.
struct Place<'a> {
    /// The position after the opening quote.
    start: usize,
    /// The name of the field, or empty.
    field: &'a str,
    /// The name of the object or list that has the field, or empty.
    parent: &'a str,
}

/// An object or a list that is not closed.
struct Open<'a> {
    is_object: bool,
    /// The value's name in the object that has it, or empty.
    name: &'a str,
    /// The name of the current field; empty in a list, and before the first field.
    field: &'a str,
    /// Whether the next string is the name of a field.
    wants_name: bool,
}

impl<'a> Place<'a> {
    /// The place of the string in which this beginning of a JSON text ends; `None` if it ends
    /// elsewhere, such as in the name of a field.
    fn after(text: &'a [u8]) -> Option<Self> {
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut at = 0;
        while at < text.len() {
            match text[at] {
                byte @ (b'{' | b'[') => {
                    let name = open.last().map_or("", |parent| parent.field);
                    let is_object = byte == b'{';
                    open.push(Open {
                        is_object,
                        name,
                        field: "",
                        wants_name: is_object,
                    });
                }
                b'}' | b']' => drop(open.pop()),
                b',' => {
                    if let Some(own) = open.last_mut() {
                        own.wants_name = own.is_object;
                    }
                }
                b'"' => {
                    let start = at + 1;
                    let own = open.last_mut()?;
                    let Some(length) = length(&text[start..]) else {
                        return (!own.wants_name).then_some(Self {
                            start,
                            field: own.field,
                            parent: own.name,
                        });
                    };
                    if own.wants_name {
                        own.field = str::from_utf8(&text[start..start + length]).ok()?;
                        own.wants_name = false;
                    }
                    at = start + length;
                }
                _ => {}
            }
            at += 1;
        }
        None
    }
}

/// The length of a string up to its closing quote; `None` if the text ends before.
fn length(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    text.iter().position(|&byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differ(one: &str, other: &str) -> bool {
        let is_quantity = |field: &str, parent: &str| field == "size" || parent == "limits";
        let [there, back] = [(one, other), (other, one)]
            .map(|(one, other)| differ_in_a_string(one, other, is_quantity));
        assert_eq!(there, back, "{one} and {other}");
        there
    }

    #[test]
    fn values_that_differ_first_in_a_string_differ() {
        for (one, other) in [
            (r#"{"image": "a:1"}"#, r#"{"image": "a:2"}"#),
            (r#"{"image": "a"}"#, r#"{"image": "ab"}"#),
            (r#"{"image": ""}"#, r#"{"image": "a"}"#),
            (r#"{"args": ["a", "b"]}"#, r#"{"args": ["a", "c"]}"#),
            (
                r#"{"a": {"limits": {"cpu": "1"}, "b": "x"}}"#,
                r#"{"a": {"limits": {"cpu": "1"}, "b": "y"}}"#,
            ),
            (
                r#"{"a": [{"n": 1}, {"n": "x"}]}"#,
                r#"{"a": [{"n": 1}, {"n": "y"}]}"#,
            ),
            (
                r#"{"quote": "\"", "b": "x"}"#,
                r#"{"quote": "\"", "b": "y"}"#,
            ),
        ] {
            assert!(differ(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn other_differences_are_not_certain() {
        for (one, other) in [
            (r#"{"a": "x"}"#, r#"{"a": "x"}"#),
            (r#"{"a": "x"}"#, r#"{"a":"x"}"#),
            (r#"{"a": "x"}"#, r#"{"b": "x"}"#),
            (r#"{"a": 1}"#, r#"{"a": 2}"#),
            (r#"{"a": 1}"#, r#"{"a": "1"}"#),
            (r#"{"a": "x", "b": []}"#, r#"{"a": "x"}"#),
            (r#"{"a": "<"}"#, r#"{"a": "\u003c"}"#),
            (r#"{"a": "x\/"}"#, r#"{"a": "x/"}"#),
            (r#"{"size": "1"}"#, r#"{"size": "1000m"}"#),
            (
                r#"{"limits": {"cpu": "1"}}"#,
                r#"{"limits": {"cpu": "1000m"}}"#,
            ),
            (r#""a""#, r#""b""#),
            ("", r#"{"a": "x"}"#),
        ] {
            assert!(!differ(one, other), "{one} and {other}");
        }
    }
}
