//! Finds values in valid JSON without parsing them. These functions are in every guest: a parser of trees would add a
//! tenth to the size of a small one.

/// Returns the value of an object's field.
pub(super) fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = object.trim_start().strip_prefix('{')?;
    loop {
        let (key, after) = split(rest);
        let (value, next) = split(after.trim_start().strip_prefix(':')?);
        if string(key) == Some(name) {
            return Some(value);
        }
        rest = next.trim_start().strip_prefix(',')?;
    }
}

/// Returns the elements of a list; none of another value.
pub(super) fn items(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = list.trim_start().strip_prefix('[');
    std::iter::from_fn(move || {
        let (item, next) = split(rest?);
        rest = next.trim_start().strip_prefix(',');
        (!item.is_empty()).then_some(item)
    })
}

/// Returns the text of a string; `None` if it has escapes, which names never have.
pub(super) fn string(value: &str) -> Option<&str> {
    let text = value.strip_prefix('"')?.strip_suffix('"')?;
    (!text.contains('\\')).then_some(text)
}

/// Splits a text behind its first value. The value is empty if there is none.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (mut depth, mut is_string, mut is_escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if is_string {
            is_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            if !is_string && depth == 0 {
                return text.split_at(at + 1);
            }
            continue;
        }
        match byte {
            b'"' => is_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return text.split_at(at + 1),
            b'}' | b']' => return text.split_at(at),
            b',' | b':' | b' ' | b'\n' | b'\t' | b'\r' if depth == 0 => return text.split_at(at),
            _ => {}
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#" { "a\"b" : "x}\"]," , "list":[1, {"b": [2]},"c" , null,[],true ],"metadata":{"name":"web","n":1.5e3},
        "empty":{}, "last" : false } "#;

    #[test]
    fn a_field_is_found_behind_values_of_each_type() {
        let names = ["list", "metadata", "empty", "last", "none", "b"];
        let found = names.map(|name| field(OBJECT, name));
        let expected = [
            Some(r#"[1, {"b": [2]},"c" , null,[],true ]"#),
            Some(r#"{"name":"web","n":1.5e3}"#),
            Some("{}"),
            Some("false"),
            None,
            None,
        ];
        assert_eq!(found, expected);
        let metadata = field(OBJECT, "metadata").unwrap();
        assert_eq!(field(metadata, "name").and_then(string), Some("web"));
        assert_eq!(field(metadata, "n"), Some("1.5e3"));
        for text in ["", "{}", "[]", "3", "{", r#"{"a"#, r#"{"a":"#] {
            assert_eq!(field(text, "b"), None, "{text}");
        }
    }

    #[test]
    fn the_elements_of_a_list_are_its_values() {
        let list: Vec<&str> = items(field(OBJECT, "list").unwrap()).collect();
        assert_eq!(list, ["1", r#"{"b": [2]}"#, r#""c""#, "null", "[]", "true"]);
        for text in ["", "[]", "[ ]", "{}", "3"] {
            assert_eq!(items(text).count(), 0, "{text}");
        }
    }

    #[test]
    fn a_string_with_an_escape_is_no_name() {
        assert_eq!(string(r#""a""#), Some("a"));
        assert_eq!(string(r#""a\nb""#), None);
        assert_eq!(string("3"), None);
    }
}
