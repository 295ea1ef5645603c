//! YAML and JSON as this binary prints them: a value becomes blocks, a list of words one line.

use serde_json::Value;

/// A value as indented JSON with a newline at its end.
pub(super) fn pretty_json(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A value as a document of YAML. Maps and lists of maps are blocks; other lists are in brackets.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, indent: usize, text: &mut String) {
    let Value::Object(fields) = value else {
        return text.push_str(&format!("{}\n", inline(value)));
    };
    for (number, (name, value)) in fields.iter().enumerate() {
        // The first field stands behind the dash of a list's item.
        if number > 0 || text.is_empty() || text.ends_with('\n') {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str(&format!("{}:", plain_or_quoted(name)));
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                text.push('\n');
                block(value, indent + 2, text);
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                text.push('\n');
                for item in items {
                    text.push_str(&format!("{}- ", " ".repeat(indent)));
                    block(item, indent + 2, text);
                }
            }
            value => text.push_str(&format!(" {}\n", inline(value))),
        }
    }
}

/// A value on one line. JSON is YAML, but for the spaces that people expect.
fn inline(value: &Value) -> String {
    match value {
        Value::String(word) => plain_or_quoted(word),
        Value::Array(items) => {
            let quoted = items.iter().map(|item| item.to_string());
            format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A word as it is, where no reader of YAML could take it for something else.
fn plain_or_quoted(word: &str) -> String {
    let is_plain = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-./".contains(&b))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&&*word.to_ascii_lowercase());
    if is_plain {
        word.to_owned()
    } else {
        Value::from(word).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_printed_is_read_back_by_a_reader_of_yaml() {
        let value = json!({
            "kind": "ClusterRole", "empty": {}, "none": [],
            "metadata": {"name": "flyball:a", "labels": {"on": "no", "a/b": "1.5", "e": "", "x": "a: b # c"}},
            "rules": [{"apiGroups": [""], "verbs": ["get", "*"]}, {"resources": ["pods/status"], "n": 3, "deep": [{"a": {"b": [true]}}]}],
        });
        let text = document(&value);
        let read: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read, value, "{text}");
    }
}
