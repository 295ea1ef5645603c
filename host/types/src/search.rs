//! Finds the values at some paths in JSON that was parsed before.
//!
//! The cache parses an object once, when it decodes it. Then each mapping, index and row of each plugin searches it. A
//! search needs no parser for that: it skips what it doesn't want by looking at quotes and brackets alone, and ends as
//! soon as nothing is left to find. It never panics, but may accept a text that isn't JSON.

use std::borrow::Cow;

use crate::Step;
use crate::path::Filter;

/// The text isn't JSON.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it isn't JSON at byte {at}")]
pub struct NotJson {
    at: usize,
}

impl NotJson {
    pub(crate) fn at(at: usize) -> Self {
        Self { at }
    }
}

/// The paths that lead through one place of an object, from there on.
pub(crate) trait Pattern: Copy {
    /// The numbers of the paths that end here.
    fn ends(self) -> impl Iterator<Item = usize>;

    /// Whether a path continues below this place.
    fn continues(self) -> bool;

    /// The number of fields that paths continue with.
    fn fields(self) -> usize;

    /// The paths that continue with this field.
    fn field(self, name: &str) -> Option<Self>;

    /// The paths that continue with each element of a list or each value of a map.
    fn each(self) -> Option<Self>;

    /// The paths that continue with the elements that a filter selects.
    fn filtered<'f>(self) -> impl Iterator<Item = (&'f Filter, Self)>
    where
        Self: 'f;
}

/// A single path, which has the number 0.
impl Pattern for &[Step] {
    fn ends(self) -> impl Iterator<Item = usize> {
        self.is_empty().then_some(0).into_iter()
    }

    fn continues(self) -> bool {
        !self.is_empty()
    }

    fn fields(self) -> usize {
        usize::from(matches!(self.first(), Some(Step::Field(_))))
    }

    fn field(self, name: &str) -> Option<Self> {
        match self.split_first()? {
            (Step::Field(own), rest) if **own == *name => Some(rest),
            _ => None,
        }
    }

    fn each(self) -> Option<Self> {
        match self.split_first()? {
            (Step::Each, rest) => Some(rest),
            _ => None,
        }
    }

    fn filtered<'f>(self) -> impl Iterator<Item = (&'f Filter, Self)>
    where
        Self: 'f,
    {
        let first = match self.split_first() {
            Some((Step::Where(filter), rest)) => Some((filter, rest)),
            _ => None,
        };
        first.into_iter()
    }
}

/// Calls `found` with each value at the paths, and the path's number, in the order of the text. Field names are unique in
/// an object of the API: if one is repeated, the first value counts.
///
/// # Errors
/// The text isn't JSON, or `found` returns an error.
pub(crate) fn search<'a, E: From<NotJson>>(
    json: &'a str,
    pattern: impl Pattern,
    found: &mut impl FnMut(usize, &'a str) -> Result<(), E>,
) -> Result<(), E> {
    Search { found }.visit(&mut Cursor::new(json), pattern, true)
}

/// A search, which passes values to `found`.
struct Search<'f, 'a, E> {
    found: &'f mut dyn FnMut(usize, &'a str) -> Result<(), E>,
}

impl<'a, E: From<NotJson>> Search<'_, 'a, E> {
    /// Visits the value at the cursor, and leaves the cursor behind it. If the value is the `last` that is searched, the
    /// cursor may stay inside.
    fn visit(
        &mut self,
        cursor: &mut Cursor<'a>,
        pattern: impl Pattern,
        last: bool,
    ) -> Result<(), E> {
        let mut ends = pattern.ends().peekable();
        if ends.peek().is_none() {
            return self.descend(cursor, pattern, last);
        }
        let value = cursor.value()?;
        for path in ends {
            (self.found)(path, value)?;
        }
        if pattern.continues() {
            self.descend(&mut Cursor::new(value), pattern, true)?;
        }
        Ok(())
    }

    /// Visits the fields or elements of the value at the cursor.
    fn descend(
        &mut self,
        cursor: &mut Cursor<'a>,
        pattern: impl Pattern,
        last: bool,
    ) -> Result<(), E> {
        match cursor.peek() {
            Some(b'{') => self.visit_fields(cursor, pattern, last),
            Some(b'[') => self.visit_elements(cursor, pattern),
            _ => Ok(cursor.skip()?),
        }
    }

    fn visit_fields(
        &mut self,
        cursor: &mut Cursor<'a>,
        pattern: impl Pattern,
        last: bool,
    ) -> Result<(), E> {
        let each = pattern.each();
        let mut left = pattern.fields();
        cursor.enter();
        while let Some(key) = cursor.key()? {
            let named = match left {
                0 => None,
                _ => pattern.field(&key),
            };
            left -= usize::from(named.is_some());
            let is_last = left == 0 && each.is_none();
            match (named, each) {
                (None, None) => cursor.skip()?,
                (Some(below), None) => self.visit(cursor, below, last && is_last)?,
                (None, Some(below)) => self.visit(cursor, below, false)?,
                (Some(below), Some(of_each)) => {
                    let value = cursor.value()?;
                    self.visit(&mut Cursor::new(value), below, true)?;
                    self.visit(&mut Cursor::new(value), of_each, true)?;
                }
            }
            if is_last {
                return match last {
                    true => Ok(()),
                    false => Ok(cursor.leave()?),
                };
            }
        }
        Ok(())
    }

    fn visit_elements(&mut self, cursor: &mut Cursor<'a>, pattern: impl Pattern) -> Result<(), E> {
        let each = pattern.each();
        let has_filters = pattern.filtered().next().is_some();
        if each.is_none() && !has_filters {
            return Ok(cursor.skip()?);
        }
        cursor.enter();
        while cursor.has_element()? {
            if !has_filters && let Some(below) = each {
                self.visit(cursor, below, false)?;
                continue;
            }
            let element = cursor.value()?;
            let selected = pattern
                .filtered()
                .filter(|(filter, _)| filter.matches(element))
                .map(|(_, below)| below);
            for below in selected.chain(each) {
                self.visit(&mut Cursor::new(element), below, true)?;
            }
        }
        Ok(())
    }
}

/// The value of a field of an object, or none if the value is not an object or has no such field.
pub(crate) fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut cursor = Cursor::new(object);
    if cursor.peek()? != b'{' {
        return None;
    }
    cursor.enter();
    while let Some(key) = cursor.key().ok()? {
        if *key == *name {
            return cursor.value().ok();
        }
        cursor.skip().ok()?;
    }
    None
}

/// The strings of a list. Other elements are left out. Ends at a syntax error.
pub(crate) fn strings_of_list(list: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut cursor = Cursor::new(list);
    cursor.enter();
    let elements = std::iter::from_fn(move || match cursor.has_element() {
        Ok(true) => cursor.value().ok(),
        _ => None,
    });
    elements.filter_map(unescaped)
}

/// The string in a JSON string, or none if the value is not a string.
pub(crate) fn unescaped(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(value).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// A place in a text. Every method either advances or fails, so that a search ends.
pub(crate) struct Cursor<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(json: &'a str) -> Self {
        Self { json, at: 0 }
    }

    fn bytes(&self) -> &'a [u8] {
        self.json.as_bytes()
    }

    fn fail<T>(&self) -> Result<T, NotJson> {
        Err(NotJson { at: self.at })
    }

    /// The next byte that isn't white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.bytes().get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Enters the object or list at the cursor.
    pub(crate) fn enter(&mut self) {
        self.at += 1;
    }

    /// Leaves the object or list that holds the cursor.
    pub(crate) fn leave(&mut self) -> Result<(), NotJson> {
        self.skip_nested(1)
    }

    /// The next field's name, or none behind the object. The cursor is then at the field's value.
    fn key(&mut self) -> Result<Option<Cow<'a, str>>, NotJson> {
        let key = self.key_text()?;
        key.map(|key| unescaped(key).ok_or(NotJson { at: self.at }))
            .transpose()
    }

    /// Like [`Cursor::key`], but returns the name as it is written, in quotes.
    pub(crate) fn key_text(&mut self) -> Result<Option<&'a str>, NotJson> {
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                return Ok(None);
            }
            Some(b',') => self.at += 1,
            _ => {}
        }
        let Some(b'"') = self.peek() else {
            return self.fail();
        };
        let key = self.value()?;
        let Some(b':') = self.peek() else {
            return self.fail();
        };
        self.at += 1;
        Ok(Some(key))
    }

    /// Whether another element follows in the list. If none does, the cursor is behind the list.
    pub(crate) fn has_element(&mut self) -> Result<bool, NotJson> {
        match self.peek() {
            Some(b']') => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(_) => Ok(true),
            None => self.fail(),
        }
    }

    /// The text of the value at the cursor, which is then behind it.
    pub(crate) fn value(&mut self) -> Result<&'a str, NotJson> {
        self.peek();
        let start = self.at;
        self.skip()?;
        match self.json.get(start..self.at) {
            Some(value) => Ok(value),
            None => self.fail(),
        }
    }

    /// Skips the value at the cursor.
    pub(crate) fn skip(&mut self) -> Result<(), NotJson> {
        match self.peek() {
            Some(b'"') => self.skip_string(),
            Some(b'{' | b'[') => {
                self.at += 1;
                self.skip_nested(1)
            }
            Some(b',' | b':' | b'}' | b']') | None => self.fail(),
            Some(_) => {
                let rest = &self.bytes()[self.at..];
                let ends = |byte: &u8| b",:]} \n\r\t".contains(byte);
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
                Ok(())
            }
        }
    }

    /// Skips up to the end of this many objects and lists that hold the cursor.
    fn skip_nested(&mut self, mut depth: usize) -> Result<(), NotJson> {
        let bytes = self.bytes();
        let mut at = self.at;
        while depth > 0 {
            let Some(byte) = bytes.get(at) else {
                return self.fail();
            };
            at += 1;
            match byte {
                b'"' => match end_of_string(bytes, at) {
                    Some(end) => at = end,
                    None => return self.fail(),
                },
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
        self.at = at;
        Ok(())
    }

    /// Skips the string at the cursor.
    fn skip_string(&mut self) -> Result<(), NotJson> {
        match end_of_string(self.bytes(), self.at + 1) {
            Some(end) => self.at = end,
            None => return self.fail(),
        }
        Ok(())
    }
}

/// The place behind a string whose content, or the rest of it, begins at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = end_of_run(bytes, at)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        // The byte after a backslash doesn't end the string.
        at += 2;
    }
}

/// The place of the first quote or backslash from `at` on. Most of an object is in strings, so eight bytes are compared
/// at once.
fn end_of_run(bytes: &[u8], mut at: usize) -> Option<usize> {
    const LOWEST: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = LOWEST << 7;
    // The lowest bit that is set belongs to the first byte that is zero.
    let zeros = |word: u64| word.wrapping_sub(LOWEST) & !word & HIGHEST;
    while let Some(word) = bytes.get(at..)?.first_chunk() {
        let word = u64::from_le_bytes(*word);
        let ends = zeros(word ^ (LOWEST * b'"' as u64)) | zeros(word ^ (LOWEST * b'\\' as u64));
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize / 8);
        }
        at += size_of::<u64>();
    }
    let is_end = |byte: &u8| matches!(byte, b'"' | b'\\');
    let rest = bytes[at..].iter().position(is_end);
    rest.map(|distance| at + distance)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use crate::FieldPath;

    use super::*;

    fn values<'a>(json: &'a str, path: &str) -> Result<Vec<&'a str>, NotJson> {
        let path: FieldPath = path.parse().unwrap();
        let mut found = Vec::new();
        search(json, path.steps(), &mut |_, value| {
            found.push(value);
            Ok(())
        })
        .map(|()| found)
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let json = r#" { "a" : [ { "b" : "x\"]}" } , { "b" : -1.5e3 } , [ ] ] , "é\n": { "c": true } , "d":{ } } "#;
        for (path, expected) in [
            ("a[*].b", vec![r#""x\"]}""#, "-1.5e3"]),
            ("['é\n'].c", vec!["true"]),
            ("['é\n']", vec![r#"{ "c": true }"#]),
            ("d", vec!["{ }"]),
            ("d.e", vec![]),
            ("a[b=x]", vec![]),
            ("e", vec![]),
        ] {
            assert_eq!(values(json, path), Ok(expected), "{path}");
        }
        assert_eq!(values(" 3 ", "."), Ok(vec!["3"]));
    }

    #[test]
    fn a_search_ends_at_the_last_value() {
        assert_eq!(values(r#"{"a":{"b":1,"c"#, "a.b"), Ok(vec!["1"]));
        assert_eq!(values(r#"{"a":[{"b":1}],"c"#, "a[*].b"), Ok(vec!["1"]));
    }

    #[test]
    fn a_text_that_ends_too_soon_fails() {
        for json in [
            "",
            "{",
            "{\"",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":[",
            "{\"a\":\"\\",
            "{a:1}",
            "{\"b\":{}",
            "{,",
            "{\"b\":}",
        ] {
            assert!(values(json, "a.b").is_err(), "{json}");
        }
    }

    pub(crate) fn arb_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![Just("a"), Just("b"), Just("é\""), Just("\\"), Just("]}")];
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 48, 5, move |inner| {
            let field = (text.clone(), inner.clone());
            prop_oneof![
                proptest::collection::vec(inner, 0..5).prop_map(Value::from),
                proptest::collection::vec(field, 0..5).prop_map(|fields| {
                    let fields = fields.into_iter().map(|(key, value)| (key.into(), value));
                    Value::Object(fields.collect::<Map<_, _>>())
                }),
            ]
        })
    }

    pub(crate) fn arb_path() -> impl Strategy<Value = FieldPath> {
        let step = prop_oneof![
            Just("['a']"),
            Just("['b']"),
            Just("['é\"']"),
            Just("[*]"),
            Just("[a=b]"),
        ];
        proptest::collection::vec(step, 1..5).prop_map(|steps| steps.concat().parse().unwrap())
    }

    proptest! {
        #[test]
        fn strings_are_those_of_the_parsed_object(value in arb_json(), path in arb_path(), pretty: bool) {
            let json = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
            prop_assert_eq!(path.strings(&json), path.lookup(&value));
        }

        #[test]
        fn any_text_is_searched_without_panic(text in r#"[{}\[\],:"\\a1 é]{0,24}"#, path in arb_path()) {
            let _ = values(&text, &path.to_string());
        }
    }

    #[test]
    fn strings_of_a_list_are_unescaped() {
        let list = json!(["a", 1, "b\n", ["c"], {}]).to_string();
        assert!(strings_of_list(&list).eq(["a", "b\n"]));
        assert!(strings_of_list("[\"a\",\"b").eq(["a"]));
    }
}
