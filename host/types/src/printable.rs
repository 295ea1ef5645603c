//! Untrusted text for logs and terminals. This is the one place that decides which characters are shown as escapes; the
//! log and the tables of the commands use it.

/// Replaces each invisible character by its escape in JSON, so that the text stays on one line, controls no terminal
/// and does not reorder the surrounding text.
///
/// The result is for people: a backslash stays as it is, so that a second call changes nothing. A parser needs
/// [`quoted`].
///
/// ```
/// assert_eq!(flyball_types::printable("a\nb\u{1b}[2J"), r"a\nb\u001b[2J");
/// ```
pub fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => push_escape(&mut printed, c),
            false => printed.push(c),
        }
    }
    printed
}

/// Returns the beginning of a text as [`printable`] returns it, for messages. Escapes count: no more than `limit` bytes
/// are shown, and a mark follows if more are left.
///
/// ```
/// assert_eq!(flyball_types::excerpt("\u{1b}[2J all is well", 12), r"\u001b[2J al [truncated]");
/// ```
pub fn excerpt(text: &str, limit: usize) -> String {
    let beginning = &text[..text.floor_char_boundary(limit)];
    let mut shown = printable(beginning);
    if beginning.len() < text.len() || shown.len() > limit {
        shown.truncate(shown.floor_char_boundary(limit));
        shown.shrink_to_fit();
        shown.push_str(" [truncated]");
    }
    shown
}

/// Returns the text as a JSON string on one line, without invisible characters. A parser of JSON reads exactly the text
/// from it.
///
/// ```
/// assert_eq!(flyball_types::quoted("say \"a\"\n"), r#""say \"a\"\n""#);
/// ```
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if is_hidden(c) => push_escape(&mut quoted, c),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a JSON document with the same content, without invisible characters in its strings. Line feeds between
/// values stay.
pub fn printable_json(json: &str) -> String {
    let mut printed = String::with_capacity(json.len());
    for c in json.chars() {
        // Strings in JSON contain no line feeds.
        match c != '\n' && is_hidden(c) {
            true => push_escape(&mut printed, c),
            false => printed.push(c),
        }
    }
    printed
}

/// Whether a character is a control, a separator other than a blank, or one that Unicode displays as nothing
/// (`Default_Ignorable_Code_Point`), such as bidirectional controls.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{1680}'
            | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn push_escape(text: &mut String, c: char) {
    match c {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        for (text, escaped) in [
            ("\u{1b}[31m", r"\u001b[31m"),
            ("\u{9b}2J\u{7f}", r"\u009b2J\u007f"),
            ("user\u{202e}nimda", r"user\u202enimda"),
            ("a\u{200b}b\u{feff}", r"a\u200bb\ufeff"),
            ("a\u{2028}b\u{a0}c", r"a\u2028b\u00a0c"),
            ("\u{e0041}", r"\udb40\udc41"),
            ("é 中 🦀 e\u{301}", "é 中 🦀 e\u{301}"),
        ] {
            assert_eq!(printable(text), escaped);
            assert_eq!(quoted(text), format!("\"{escaped}\""));
        }
    }

    proptest! {
        #[test]
        fn a_quoted_text_is_read_back(text in prop::collection::vec(any::<char>(), 0..40)) {
            let text: String = text.into_iter().collect();
            let quoted = quoted(&text);
            prop_assert!(!quoted.chars().any(is_hidden), "{quoted}");
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
        }

        #[test]
        fn a_printed_text_is_printed_as_it_is(text in prop::collection::vec(any::<char>(), 0..40)) {
            let once = printable(&text.into_iter().collect::<String>());
            prop_assert!(!once.chars().any(is_hidden), "{once}");
            prop_assert_eq!(printable(&once), once);
        }

        #[test]
        fn an_excerpt_has_no_more_than_its_limit_and_a_short_text_is_whole(
            text in prop::collection::vec(any::<char>(), 0..40), limit in 0_usize..60
        ) {
            let text: String = text.into_iter().collect();
            let (printed, shown) = (printable(&text), excerpt(&text, limit));
            match shown.strip_suffix(" [truncated]") {
                Some(shown) => prop_assert!(shown.len() <= limit && printed.starts_with(shown)),
                None => prop_assert!(shown == printed && shown.len() <= limit),
            }
        }

        #[test]
        fn a_printed_document_has_the_same_content(
            texts in prop::collection::vec(prop::collection::vec(any::<char>(), 0..20), 0..4)
        ) {
            let texts: Vec<String> = texts.into_iter().map(|text| text.into_iter().collect()).collect();
            let printed = printable_json(&serde_json::to_string_pretty(&texts).unwrap());
            prop_assert!(!printed.chars().any(|c| c != '\n' && is_hidden(c)), "{printed}");
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&printed).unwrap(), texts);
        }
    }
}
