//! The text of an expression, and the errors in it.
//!
//! In cel-go: common/source.go, common/error.go and common/errors.go: ToDisplayString.

use std::fmt;

/// The most errors that are shown of one expression.
const MAX_SHOWN: usize = 100;
/// The longest line, in bytes, that is shown with an error.
const MAX_LINE: usize = 16_384;

/// The text of an expression. Positions in it count characters.
pub(crate) struct Source {
    characters: Vec<char>,
    /// The positions at which the second and later lines begin.
    line_starts: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let ends = (0..).zip(&characters).filter(|(_, c)| **c == '\n');
        let line_starts = ends.map(|(end, _): (usize, _)| end + 1).collect();
        Self {
            characters,
            line_starts,
        }
    }

    pub(crate) fn characters(&self) -> &[char] {
        &self.characters
    }

    pub(crate) fn text(&self, from: usize, to: usize) -> String {
        let to = to.min(self.characters.len());
        self.characters[from.min(to)..to].iter().collect()
    }

    /// Returns the index of a position's line, and the position in the line. Both count from zero.
    fn location(&self, position: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= position);
        (line, position - self.start_of(line))
    }

    fn start_of(&self, line: usize) -> usize {
        line.checked_sub(1).map_or(0, |at| self.line_starts[at])
    }

    fn line(&self, line: usize) -> String {
        let next = self.line_starts.get(line);
        let end = next.map_or(self.characters.len(), |next| next - 1);
        self.text(self.start_of(line), end)
    }
}

/// An error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    /// None if the error concerns the whole expression.
    pub position: Option<usize>,
    pub message: String,
}

/// The errors of an expression. [`Display`](fmt::Display) writes them as cel-go does: each with its position, the line
/// and a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(String);

impl Errors {
    /// Returns the errors in the order of their positions; none if there are no issues.
    pub(crate) fn of(source: &Source, mut issues: Vec<Issue>) -> Option<Self> {
        if issues.is_empty() {
            return None;
        }
        let found = issues.len();
        issues.truncate(MAX_SHOWN);
        issues.sort_by_key(|issue| issue.position);
        let mut texts: Vec<_> = issues.iter().map(|issue| shown(source, issue)).collect();
        if found > MAX_SHOWN {
            texts.push(format!("{} more errors were truncated", found - MAX_SHOWN));
        }
        Some(Self(texts.join("\n")))
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the text of an error with the line that it is in.
fn shown(source: &Source, issue: &Issue) -> String {
    let message = &issue.message;
    let Some(position) = issue.position else {
        return format!("ERROR: <input>:-1:0: {message}");
    };
    if source.characters.is_empty() {
        return format!("ERROR: <input>:1:0: {message}");
    }
    let (line, column) = source.location(position);
    let mut text = format!("ERROR: <input>:{}:{}: {message}", line + 1, column + 1);
    let content = source.line(line);
    if content.len() <= MAX_LINE {
        let content = content.replace('\t', " ");
        text.push_str(&format!("\n | {content}\n | "));
        text.extend(content.chars().take(column).map(|c| wide(c, '.', '．')));
        text.push(
            content
                .chars()
                .nth(column)
                .map_or('^', |c| wide(c, '^', '＾')),
        );
    }
    text
}

/// A mark below a character. Characters beyond ASCII are taken for wide ones.
fn wide(character: char, narrow: char, wide: char) -> char {
    if character.is_ascii() { narrow } else { wide }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, positions: &[usize]) -> String {
        let issue = |position: &usize| Issue {
            position: Some(*position),
            message: format!("bad {position}"),
        };
        let issues = positions.iter().map(issue).collect();
        Errors::of(&Source::new(text), issues).unwrap().to_string()
    }

    #[test]
    fn errors_are_shown_in_order_with_their_lines() {
        assert_eq!(
            texts("a ==\n\tb.c", &[7, 2]),
            "ERROR: <input>:1:3: bad 2\n | a ==\n | ..^\nERROR: <input>:2:3: bad 7\n |  b.c\n | ..^"
        );
    }

    #[test]
    fn the_caret_can_be_behind_the_end_and_below_a_wide_character() {
        assert_eq!(
            texts("ab", &[2]),
            "ERROR: <input>:1:3: bad 2\n | ab\n | ..^"
        );
        assert_eq!(
            texts("é日", &[1]),
            "ERROR: <input>:1:2: bad 1\n | é日\n | ．＾"
        );
    }

    #[test]
    fn only_the_first_hundred_errors_are_shown() {
        let positions: Vec<_> = (0..103).collect();
        let text = texts(&"x".repeat(103), &positions);
        assert!(text.ends_with("\n3 more errors were truncated"));
        assert_eq!(text.matches("ERROR").count(), 100);
    }
}
