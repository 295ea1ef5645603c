//! Lists in sentences. A list that others wrote may have any length, but a sentence must be short.

use std::fmt::Display;

/// Bytes of the items that a sentence shows.
const MAX_SHOWN: usize = 2048;

/// Returns the items of a list with commas between them. A long list is shortened to its first items and the number of
/// the others.
///
/// ```
/// assert_eq!(flyball_types::listed(["a", "b"]), "a, b");
/// assert!(flyball_types::listed(["x"; 5000]).ends_with("x and 4316 more"));
/// ```
pub fn listed<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let (mut text, mut hidden) = (String::new(), 0);
    for item in items {
        if hidden > 0 {
            hidden += 1;
            continue;
        }
        let item = item.to_string();
        if text.is_empty() {
            text.push_str(shown(&item));
        } else if text.len() + item.len() <= MAX_SHOWN {
            text.push_str(", ");
            text.push_str(&item);
        } else {
            hidden = 1;
        }
    }
    if hidden > 0 {
        text.push_str(&format!(" and {hidden} more"));
    }
    text
}

fn shown(item: &str) -> &str {
    &item[..item.floor_char_boundary(MAX_SHOWN)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_any_length_makes_a_short_sentence() {
        for items in [vec!["ö".repeat(1024); 1000], vec!["ö".repeat(1 << 20); 2]] {
            let text = listed(&items);
            assert!(text.len() < MAX_SHOWN + 50, "{} bytes", text.len());
            assert!(text.contains(" and "), "{text}");
        }
        assert_eq!(listed::<&str>([]), "");
    }
}
