//! Divides the text of an expression into tokens.
//!
//! In cel-go: parser/gen/CEL.g4, from `Lexer Rules`.

use crate::source::{Issue, Source};
use crate::token::{FIXED, Token, WORDS};

/// A token and its place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lexeme {
    pub token: Token,
    pub start: usize,
    pub end: usize,
}

/// Returns the tokens, the last of which is [`Token::End`]. Text that is no token is reported and left out.
pub(crate) fn lexemes(source: &Source, issues: &mut Vec<Issue>) -> Vec<Lexeme> {
    let text = source.characters();
    let mut lexemes = Vec::new();
    let mut start = 0;
    while start < text.len() {
        if let Some(end) = skipped(text, start) {
            start = end;
            continue;
        }
        match lexeme(text, start) {
            Ok((token, end)) => {
                lexemes.push(Lexeme { token, start, end });
                start = end;
            }
            Err(at) => {
                let part = source.text(start, at + 1);
                issues.push(Issue {
                    position: Some(start),
                    message: format!("Syntax error: token recognition error at: '{part}'"),
                });
                start = at + 1;
            }
        }
    }
    let end = text.len();
    lexemes.push(Lexeme {
        token: Token::End,
        start: end,
        end,
    });
    lexemes
}

/// Returns the end of white space or of a comment.
fn skipped(text: &[char], start: usize) -> Option<usize> {
    let is_space = |c: &char| "\t \r\n\u{c}".contains(*c);
    if is_space(&text[start]) {
        return Some(end_of(text, start, is_space));
    }
    let is_comment = text[start..].starts_with(&['/', '/']);
    is_comment.then(|| end_of(text, start, |c| *c != '\n'))
}

/// Returns the end of the characters from `start` that match.
fn end_of(text: &[char], start: usize, matches: impl Fn(&char) -> bool) -> usize {
    let count = text[start..].iter().take_while(|c| matches(c)).count();
    start + count
}

/// Returns the longest token and its end, or the position at which no token can be continued.
fn lexeme(text: &[char], start: usize) -> Result<(Token, usize), usize> {
    let first = text[start];
    let next = text.get(start + 1).copied().unwrap_or_default();
    if let Some((token, end)) = string(text, start).or_else(|| word(text, start)) {
        return Ok((token, end));
    }
    if first.is_ascii_digit() || first == '.' && next.is_ascii_digit() {
        return Ok(number(text, start));
    }
    match first {
        '"' | '\'' => Err(string_end(text, start, false).unwrap_or_else(|at| at)),
        '`' => escaped_identifier(text, start),
        _ => fixed(text, start),
    }
}

fn fixed(text: &[char], start: usize) -> Result<(Token, usize), usize> {
    let is_here = |token: &&(&str, Token)| {
        let mut rest = text[start..].iter().copied();
        token.0.chars().all(|c| rest.next() == Some(c))
    };
    if let Some((found, token)) = FIXED.iter().find(is_here) {
        return Ok((*token, start + found.len()));
    }
    // The first character of `==`, `&&` or `||` alone.
    let is_half = "=&|".contains(text[start]);
    Err(start + usize::from(is_half))
}

fn word(text: &[char], start: usize) -> Option<(Token, usize)> {
    if !(text[start].is_ascii_alphabetic() || text[start] == '_') {
        return None;
    }
    let end = end_of(text, start, |c| c.is_ascii_alphanumeric() || *c == '_');
    let word: String = text[start..end].iter().collect();
    let known = WORDS.iter().find(|(known, _)| *known == word);
    Some((known.map_or(Token::Identifier, |(_, token)| *token), end))
}

fn escaped_identifier(text: &[char], start: usize) -> Result<(Token, usize), usize> {
    let end = end_of(text, start + 1, |c| {
        c.is_ascii_alphanumeric() || "_.-/ ".contains(*c)
    });
    match text.get(end) {
        Some('`') if end > start + 1 => Ok((Token::EscapedIdentifier, end + 1)),
        _ => Err(end),
    }
}

fn number(text: &[char], start: usize) -> (Token, usize) {
    let digits = |from| end_of(text, from, char::is_ascii_digit);
    let at = |position: usize| text.get(position).copied().unwrap_or_default();
    let unsigned = |end: usize| match at(end) {
        'u' | 'U' => (Token::Uint, end + 1),
        _ => (Token::Int, end),
    };
    if at(start) == '0' && at(start + 1) == 'x' && at(start + 2).is_ascii_hexdigit() {
        return unsigned(end_of(text, start + 2, char::is_ascii_hexdigit));
    }
    let whole = digits(start);
    let has_fraction = at(whole) == '.' && at(whole + 1).is_ascii_digit();
    let end = if has_fraction {
        digits(whole + 1)
    } else {
        whole
    };
    let sign = usize::from(matches!(at(end + 1), '+' | '-'));
    if matches!(at(end), 'e' | 'E') && at(end + 1 + sign).is_ascii_digit() {
        return (Token::Float, digits(end + 1 + sign));
    }
    if has_fraction {
        (Token::Float, end)
    } else {
        unsigned(end)
    }
}

/// Returns a string or bytes, with their prefixes.
fn string(text: &[char], start: usize) -> Option<(Token, usize)> {
    let mut at = start;
    let mut has = |letters: [char; 2]| {
        let found = text.get(at).is_some_and(|c| letters.contains(c));
        at += usize::from(found);
        found
    };
    let token = if has(['b', 'B']) {
        Token::Bytes
    } else {
        Token::String
    };
    let is_raw = has(['r', 'R']);
    let is_quote = matches!(text.get(at), Some('"' | '\''));
    let end = is_quote
        .then(|| string_end(text, at, is_raw).ok())
        .flatten();
    Some((token, end?))
}

/// Returns the end of the string whose quote is at `start`, or the position at which it can't go on.
fn string_end(text: &[char], start: usize, is_raw: bool) -> Result<usize, usize> {
    let quote = text[start];
    if text[start..].starts_with(&[quote; 3])
        && let Ok(end) = quoted(text, start + 3, &[quote; 3], is_raw)
    {
        return Ok(end);
    }
    quoted(text, start + 1, &[quote], is_raw)
}

/// Returns the end behind the closing quotes. Three of them can be lines apart from the opening ones.
fn quoted(text: &[char], from: usize, closing: &[char], is_raw: bool) -> Result<usize, usize> {
    let mut at = from;
    loop {
        if text[at.min(text.len())..].starts_with(closing) {
            return Ok(at + closing.len());
        }
        match text.get(at) {
            None => return Err(at),
            Some('\n' | '\r') if closing.len() == 1 => return Err(at),
            Some('\\') if !is_raw => at = escape_end(text, at)?,
            Some(_) => at += 1,
        }
    }
}

/// Returns the end of the escape sequence at `start`, or the position at which it is wrong.
fn escape_end(text: &[char], start: usize) -> Result<usize, usize> {
    let is_hex: fn(&char) -> bool = char::is_ascii_hexdigit;
    let is_octal: fn(&char) -> bool = |c| ('0'..='7').contains(c);
    let (matches, count) = match text.get(start + 1) {
        Some('x' | 'X') => (is_hex, 2),
        Some('u') => (is_hex, 4),
        Some('U') => (is_hex, 8),
        Some('0'..='3') => (is_octal, 2),
        Some(c) if "abfnrtv\"'\\?`".contains(*c) => return Ok(start + 2),
        _ => return Err(start + 1),
    };
    let from = start + 2;
    let wrong = (from..from + count).find(|at| !text.get(*at).is_some_and(matches));
    wrong.map_or(Ok(from + count), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Vec<String>, Vec<String>) {
        let source = Source::new(text);
        let mut issues = Vec::new();
        let lexemes = lexemes(&source, &mut issues);
        let part = |one: &Lexeme| format!("{:?} {}", one.token, source.text(one.start, one.end));
        (
            lexemes.iter().map(part).collect(),
            issues.into_iter().map(|issue| issue.message).collect(),
        )
    }

    fn tokens(text: &str) -> Vec<String> {
        let (tokens, issues) = parts(text);
        assert_eq!(issues, [""; 0]);
        tokens
    }

    #[test]
    fn numbers_end_where_they_can_not_go_on() {
        for (text, expected) in [
            ("1.e", vec!["Int 1", "Dot .", "Identifier e"]),
            ("1.5e-3u", vec!["Float 1.5e-3", "Identifier u"]),
            ("1e", vec!["Int 1", "Identifier e"]),
            (".5", vec!["Float .5"]),
            ("0xfgu", vec!["Int 0xf", "Identifier gu"]),
            ("0x1Fu", vec!["Uint 0x1Fu"]),
            ("7U", vec!["Uint 7U"]),
        ] {
            let found = tokens(text);
            assert_eq!(found[..found.len() - 1], expected, "{text}");
        }
    }

    #[test]
    fn strings_have_prefixes_and_one_or_three_quotes() {
        for text in [
            "'a'",
            "\"a'\"",
            "r'\\'",
            "'''a\n'b'''",
            "\"\"\"\"\"\"",
            "'\\''",
            "'\\x4f\\101\\u00e9'",
        ] {
            assert_eq!(tokens(text), [format!("String {text}"), "End ".into()]);
        }
        for text in ["b'a'", "BR'\\'", "b\"\"\"a\"\"\""] {
            assert_eq!(tokens(text), [format!("Bytes {text}"), "End ".into()]);
        }
        assert_eq!(tokens("b''a")[..2], ["Bytes b''", "Identifier a"]);
    }

    #[test]
    fn comments_and_white_space_are_left_out() {
        assert_eq!(
            tokens("a // b\n\t&&\r\u{c}c"),
            ["Identifier a", "And &&", "Identifier c", "End "]
        );
    }

    #[test]
    fn what_is_no_token_is_reported_up_to_where_it_is_wrong() {
        for (text, error) in [
            ("1 & 2", "& "),
            ("'abc", "'abc"),
            ("'\\q", "'\\q"),
            ("@", "@"),
            ("`a;`", "`a;"),
        ] {
            let (_, issues) = parts(text);
            let expected = format!("Syntax error: token recognition error at: '{error}'");
            assert_eq!(issues[0], expected);
        }
    }
}
