//! The fields in which two JSON values differ, for people.

use serde_json::Value;

/// The longest value that is shown, in bytes. The rest is cut off.
const VALUE: usize = 200;

/// Returns the fields in which two values differ, a line for each and at most `most` of them: `path: before → now`,
/// `+ path: now` or `- path: before`. A last line says how many more there are.
///
/// ```
/// # use serde_json::json;
/// let (before, now) = (json!({"spec": {"replicas": 3, "paused": true}}), json!({"spec": {"replicas": 4}}));
/// let lines = flyball_recording::differences(&before, &now, 10);
/// assert_eq!(lines, ["- spec.paused: true", "spec.replicas: 3 → 4"]);
/// ```
pub fn differences(before: &Value, now: &Value, most: usize) -> Vec<String> {
    let mut found = Found {
        lines: Vec::new(),
        most,
        more: 0,
    };
    found.compare("", before, now);
    if found.more > 0 {
        found.lines.push(format!("… and {} more", found.more));
    }
    found.lines
}

struct Found {
    lines: Vec<String>,
    most: usize,
    more: usize,
}

impl Found {
    /// The depth is bounded by that of the values, which serde_json limits to 128.
    fn compare(&mut self, path: &str, before: &Value, now: &Value) {
        match (before, now) {
            _ if before == now => {}
            (Value::Object(before), Value::Object(now)) => {
                for (name, value) in before {
                    let path = member(path, name);
                    match now.get(name) {
                        Some(now) => self.compare(&path, value, now),
                        None => self.add(|| format!("- {path}: {}", short(value))),
                    }
                }
                for (name, value) in now.iter().filter(|(name, _)| !before.contains_key(*name)) {
                    self.add(|| format!("+ {}: {}", member(path, name), short(value)));
                }
            }
            (Value::Array(before), Value::Array(now)) => {
                for number in 0..before.len().max(now.len()) {
                    let path = format!("{path}[{number}]");
                    match (before.get(number), now.get(number)) {
                        (Some(before), Some(now)) => self.compare(&path, before, now),
                        (Some(before), None) => {
                            self.add(|| format!("- {path}: {}", short(before)));
                        }
                        (None, now) => {
                            let now = now.unwrap_or(&Value::Null);
                            self.add(|| format!("+ {path}: {}", short(now)));
                        }
                    }
                }
            }
            _ => {
                let path = if path.is_empty() { "." } else { path };
                self.add(|| format!("{path}: {} → {}", short(before), short(now)));
            }
        }
    }

    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < self.most {
            self.lines.push(line());
        } else {
            self.more += 1;
        }
    }
}

/// The path of a member, as the field paths of the world are written.
fn member(path: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '$';
    match (
        path.is_empty(),
        !name.is_empty() && name.chars().all(is_plain),
    ) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}['{name}']"),
    }
}

fn short(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > VALUE {
        text.truncate(text.floor_char_boundary(VALUE));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_difference_has_its_line() {
        let before =
            json!({"a": {"b": [1, 2, 3]}, "gone": null, "metadata": {"labels": {"x.y/z": "1"}}});
        let now = json!({"a": {"b": [1, 5]}, "new": {}, "metadata": {"labels": {"x.y/z": "2"}}});
        assert_eq!(
            differences(&before, &now, 10),
            [
                "a.b[1]: 2 → 5",
                "- a.b[2]: 3",
                "- gone: null",
                "metadata.labels['x.y/z']: \"1\" → \"2\"",
                "+ new: {}",
            ]
        );
        assert_eq!(differences(&json!(1), &json!([1]), 10), [".: 1 → [1]"]);
        assert!(differences(&now, &now, 10).is_empty());
    }

    #[test]
    fn the_number_of_lines_and_the_length_of_values_are_bounded() {
        let many: Value = (0..100).collect();
        let lines = differences(&many, &json!([]), 3);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[3], "… and 97 more");
        let long = differences(&json!("ö".repeat(10_000)), &json!(1), 3);
        assert!(long[0].len() < 300, "{}", long[0].len());
    }
}
