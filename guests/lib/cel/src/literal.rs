//! Values of literals.
//!
//! In cel-go: parser/unescape.go, and parser/parser.go: VisitInt, VisitUint, VisitDouble.

use std::str::Chars;

use crate::ast::Literal;

/// Returns an integer with its sign.
///
/// # Errors
/// The number does not fit in 64 bits.
pub(crate) fn int(sign: &str, text: &str) -> Result<Literal, &'static str> {
    let (digits, radix) = radix(text);
    i64::from_str_radix(&format!("{sign}{digits}"), radix)
        .map(|_| Literal::Int)
        .map_err(|_| "invalid int literal")
}

/// Returns an unsigned integer, whose text ends with `u`.
///
/// # Errors
/// The number does not fit in 64 bits.
pub(crate) fn uint(text: &str) -> Result<Literal, &'static str> {
    let (digits, radix) = radix(&text[..text.len() - 1]);
    u64::from_str_radix(digits, radix)
        .map(|_| Literal::Uint)
        .map_err(|_| "invalid uint literal")
}

/// Returns a number with a fraction or an exponent.
///
/// # Errors
/// The number is too large.
pub(crate) fn double(text: &str) -> Result<Literal, &'static str> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Literal::Double),
        _ => Err("invalid double literal"),
    }
}

fn radix(text: &str) -> (&str, u32) {
    text.strip_prefix("0x")
        .map_or((text, 10), |digits| (digits, 16))
}

/// Returns the value of a string that the lexer has found, with its quotes and its prefix.
///
/// # Errors
/// An escape is not a character.
pub(crate) fn string(text: &str) -> Result<Literal, &'static str> {
    let content = text.trim_start_matches(['r', 'R']);
    let is_raw = content.len() < text.len();
    let content = unquoted(content).replace("\r\n", "\n").replace('\r', "\n");
    if is_raw {
        return Ok(Literal::String(content));
    }
    let mut value = String::new();
    let mut rest = content.chars();
    while let Some(c) = rest.next() {
        value.push(if c == '\\' { escaped(&mut rest)? } else { c });
    }
    Ok(Literal::String(value))
}

/// Checks bytes that the lexer has found.
///
/// # Errors
/// An escape stands for a character, which bytes don't have.
pub(crate) fn bytes(text: &str) -> Result<Literal, &'static str> {
    let content = text.trim_start_matches(['b', 'B']);
    let is_raw = content.starts_with(['r', 'R']);
    let mut rest = content.chars();
    while let Some(c) = rest.next() {
        if c == '\\' && !is_raw && matches!(rest.next(), Some('u' | 'U')) {
            return Err("unable to unescape string");
        }
    }
    Ok(Literal::Bytes)
}

fn unquoted(text: &str) -> &str {
    let triple = ["'''", "\"\"\""];
    let quotes = match triple.iter().any(|quotes| text.starts_with(quotes)) {
        true if text.len() >= 6 => 3,
        _ => 1,
    };
    &text[quotes..text.len() - quotes]
}

/// Returns the character of an escape, behind its backslash.
fn escaped(rest: &mut Chars<'_>) -> Result<char, &'static str> {
    Ok(match rest.next() {
        Some('a') => '\x07',
        Some('b') => '\x08',
        Some('f') => '\x0c',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('v') => '\x0b',
        Some('x' | 'X') => numbered("", rest, 2, 16)?,
        Some('u') => numbered("", rest, 4, 16)?,
        Some('U') => numbered("", rest, 8, 16)?,
        Some(digit @ '0'..='3') => numbered(&digit.to_string(), rest, 2, 8)?,
        Some(other) => other,
        None => return Err("unable to unescape string, found '\\' as last character"),
    })
}

/// Returns the character with a number, of which `first` was taken.
fn numbered(
    first: &str,
    rest: &mut Chars<'_>,
    digits: usize,
    radix: u32,
) -> Result<char, &'static str> {
    let text: String = first.chars().chain(rest.take(digits)).collect();
    u32::from_str_radix(&text, radix)
        .ok()
        .and_then(char::from_u32)
        .ok_or("invalid unicode code point")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters() {
        for (text, value) in [
            (r"'a\n\x41\101\u00e9\U0001F600\\'", "a\nAAé😀\\"),
            (r"r'\n'", "\\n"),
            ("'''a\r\n'b'''", "a\n'b"),
            ("''", ""),
            ("\"\"\"\"\"\"", ""),
        ] {
            assert_eq!(string(text), Ok(Literal::String(value.into())), "{text}");
        }
    }

    #[test]
    fn numbers_and_escapes_have_limits() {
        assert_eq!(int("-", "9223372036854775808"), Ok(Literal::Int));
        assert_eq!(int("", "9223372036854775808"), Err("invalid int literal"));
        assert_eq!(int("-", "0x10"), Ok(Literal::Int));
        assert_eq!(uint("0x1ffffffffffffffffu"), Err("invalid uint literal"));
        assert_eq!(double("1e400"), Err("invalid double literal"));
        assert_eq!(string(r"'\ud800'"), Err("invalid unicode code point"));
        assert_eq!(bytes(r"b'\u0041'"), Err("unable to unescape string"));
        assert_eq!(bytes(r"br'\u0041'"), Ok(Literal::Bytes));
    }
}
