//! The `Warning` headers of the API server's answers. It warns about fields of a write that it dropped, about deprecated
//! versions, and about whatever an admission webhook or policy warns of. Without the parameter `fieldValidation`, it
//! validates fields with `Warn`, so a request needs nothing to get them.

use std::sync::Arc;

use http::HeaderMap;
use http::header::WARNING;
use parking_lot::Mutex;

/// The code of the API server's warnings: a lasting one, in the words of RFC 7234.
const CODE: &str = "299";

/// The warnings of a request's answers, each once. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Returns the warnings so far, and forgets them.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    /// Adds the warnings of an answer.
    pub(crate) fn add(&self, headers: &HeaderMap) {
        let values = headers.get_all(WARNING).into_iter();
        // A header that is not ASCII is UTF-8.
        let texts = values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
        let mut known = self.0.lock();
        for warning in texts.flat_map(read) {
            if !known.contains(&warning) {
                known.push(warning);
            }
        }
    }
}

/// Reads a header such as `299 - "unknown field \"spec.dta\""`. It may hold several, each with a date. A malformed rest
/// is left out.
fn read(header: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut rest = header;
    while let Some(start) = rest.find('"') {
        let Some((text, after)) = quoted(&rest[start + 1..]) else {
            break;
        };
        let code = rest[..start]
            .trim_start_matches([',', ' '])
            .split(' ')
            .next();
        if code == Some(CODE) {
            warnings.push(text);
        }
        // A date is quoted, too.
        rest = match after.strip_prefix(" \"").and_then(quoted) {
            Some((_, after)) => after,
            None => after,
        };
    }
    warnings
}

/// Returns a text without its escapes, up to the closing quote, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut unescaped = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((unescaped, &text[at + 1..])),
            '\\' => unescaped.push(letters.next()?.1),
            letter => unescaped.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(headers: &[&'static str]) -> Vec<String> {
        let warnings = Warnings::default();
        let mut map = HeaderMap::new();
        for header in headers {
            map.append(WARNING, HeaderValue::from_static(header));
        }
        warnings.add(&map);
        warnings.add(&map);
        warnings.take()
    }

    #[test]
    fn each_warning_of_all_headers_is_read_once() {
        let found = of(&[
            r#"299 - "unknown field \"spec.dta\"""#,
            r#"299 - "a, \\ b" "Wed, 21 Oct 2015 07:28:00 GMT", 299 agent "c""#,
        ]);
        assert_eq!(found, [r#"unknown field "spec.dta""#, r"a, \ b", "c"]);
    }

    #[test]
    fn other_codes_and_malformed_warnings_are_left_out() {
        let found = of(&[r#"199 - "misc", 299 - "a""#, "299 - a", r#"299 - "b"#, ""]);
        assert_eq!(found, ["a"]);
    }
}
