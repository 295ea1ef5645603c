//! Reduces an object that was pruned before to the part that a smaller mask keeps.
//!
//! The cache keeps an object with the fields of all of its readers, and each reader gets its own. `prune.rs` parses what
//! comes from outside; here the bytes were parsed before, so that skipping what isn't wanted needs no parser (see
//! `search.rs`), and the reduction ends with the last field that is wanted.

use crate::mask::{Mask, Node};
use crate::prune::separate;
use crate::search::{Cursor, NotJson, unescaped};

impl Mask {
    /// Appends the kept part of an object that a mask has pruned before to `out`. The result is that of
    /// [`Mask::prune`], in less time, but for escape sequences in names, which stay as they are.
    ///
    /// # Errors
    /// The bytes are not JSON, which isn't always noticed. The caller must then discard what was appended.
    pub fn reduce(&self, json: &[u8], out: &mut Vec<u8>) -> Result<(), NotJson> {
        self.root().reduce(text(json)?, out).map(drop)
    }
}

impl Node {
    /// Appends the kept part of a value that was parsed before, and returns whether there is any. Fails as
    /// [`Mask::reduce`] does.
    pub fn reduce(&self, value: &str, out: &mut Vec<u8>) -> Result<bool, NotJson> {
        reduce(&mut Cursor::new(value), self, true, out)
    }

    /// Appends the kept part of a list element that was parsed before, after a comma if it is needed. Fails as
    /// [`Mask::reduce`] does.
    pub fn reduce_element(&self, element: &[u8], out: &mut Vec<u8>) -> Result<(), NotJson> {
        let element = text(element)?;
        let Some(node) = self.element_like(element) else {
            return Ok(());
        };
        let start = out.len();
        separate(out);
        if !node.reduce(element, out)? {
            out.truncate(start);
        }
        Ok(())
    }
}

fn text(json: &[u8]) -> Result<&str, NotJson> {
    std::str::from_utf8(json).map_err(|error| NotJson::at(error.valid_up_to()))
}

/// Appends the kept part of the value at the cursor, and returns whether there is any. Leaves the cursor behind the value;
/// if the value is the `last` that is wanted, the cursor may stay inside.
fn reduce(
    cursor: &mut Cursor<'_>,
    node: &Node,
    last: bool,
    out: &mut Vec<u8>,
) -> Result<bool, NotJson> {
    let Node::Some { fields, each, .. } = node else {
        out.extend_from_slice(cursor.value()?.as_bytes());
        return Ok(true);
    };
    match cursor.peek() {
        Some(b'{') => {
            // With a part of each field, none is the last one.
            let named = each.is_none().then_some(fields.len());
            reduce_fields(cursor, node, named, last, out)?;
            Ok(true)
        }
        Some(b'[') if node.is_filtered() || each.is_some() => {
            reduce_elements(cursor, node, out)?;
            Ok(true)
        }
        // A scalar has no parts.
        _ => cursor.skip().map(|()| false),
    }
}

/// Appends the kept fields of the object at the cursor. `left` is the number of fields that are wanted; none if any field
/// may be.
fn reduce_fields(
    cursor: &mut Cursor<'_>,
    node: &Node,
    mut left: Option<usize>,
    last: bool,
    out: &mut Vec<u8>,
) -> Result<(), NotJson> {
    out.push(b'{');
    cursor.enter();
    while left != Some(0)
        && let Some(key) = cursor.key_text()?
    {
        let below = unescaped(key).and_then(|name| node.field(&name));
        let Some(below) = below else {
            cursor.skip()?;
            continue;
        };
        left = left.map(|left| left - 1);
        let start = out.len();
        separate(out);
        out.extend_from_slice(key.as_bytes());
        out.push(b':');
        if !reduce(cursor, below, last && left == Some(0), out)? {
            out.truncate(start);
        }
    }
    out.push(b'}');
    if left == Some(0) && !last {
        cursor.leave()?;
    }
    Ok(())
}

/// Appends the kept parts of the elements of the list at the cursor.
fn reduce_elements(cursor: &mut Cursor<'_>, node: &Node, out: &mut Vec<u8>) -> Result<(), NotJson> {
    out.push(b'[');
    cursor.enter();
    while cursor.has_element()? {
        if node.is_filtered() {
            node.reduce_element(cursor.value()?.as_bytes(), out)?;
            continue;
        }
        let start = out.len();
        separate(out);
        let is_kept = match node.element() {
            Some(below) => reduce(cursor, below, false, out)?,
            None => cursor.skip().map(|()| false)?,
        };
        if !is_kept {
            out.truncate(start);
        }
    }
    out.push(b']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::search::tests::{arb_json, arb_path};
    use crate::{FieldPath, Step};

    fn reduce(mask: &Mask, json: &str) -> String {
        let mut out = Vec::new();
        mask.reduce(json.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn prune(mask: &Mask, json: &str) -> String {
        let mut out = Vec::new();
        mask.prune(json.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn a_reduction_is_what_pruning_keeps(
            value in arb_json(),
            paths in proptest::collection::vec(arb_path(), 0..6),
            more in proptest::collection::vec(arb_path(), 0..6),
        ) {
            let object = json!({"metadata": {"name": "n", "uid": "u"}, "a": value}).to_string();
            let below = |paths: &[FieldPath]| {
                let below_a = |path: &FieldPath| {
                    let first = Step::Field("a".into());
                    FieldPath::of_steps([&[first], path.steps()].concat())
                };
                Mask::of(&paths.iter().map(below_a).collect::<Vec<_>>())
            };
            if let (Ok(mask), Ok(wider)) = (below(&paths), below(&[paths.clone(), more].concat())) {
                let cached = prune(&wider, &object);
                prop_assert_eq!(reduce(&mask, &cached), prune(&mask, &cached));
                prop_assert_eq!(reduce(&wider, &cached), cached);
            }
        }

        #[test]
        fn any_text_is_reduced_without_panic(text in r#"[{}\[\],:"\\a1 é]{0,24}"#, path in arb_path()) {
            let _ = Mask::from(&path).reduce(text.as_bytes(), &mut Vec::new());
        }
    }

    #[test]
    fn a_reduction_ends_at_the_last_field_that_is_wanted() {
        let mask = Mask::parse(["spec.a", "spec.b.c"]).unwrap();
        let begins = r#"{"metadata":{"name":"n","namespace":"m","uid":"u","resourceVersion":"1"},"spec":{"x":[{}],"a":1,"b":{"c":2,"#;
        assert_eq!(
            reduce(&mask, begins),
            r#"{"metadata":{"name":"n","namespace":"m","uid":"u","resourceVersion":"1"},"spec":{"a":1,"b":{"c":2}}}"#
        );
    }

    #[test]
    fn a_text_that_ends_too_soon_fails() {
        let mask = Mask::parse(["spec.a"]).unwrap();
        for json in ["", "{", "{\"spec\"", "{\"spec\":{\"b\":[", "{\"a\":1"] {
            assert!(
                mask.reduce(json.as_bytes(), &mut Vec::new()).is_err(),
                "{json}"
            );
        }
    }
}
