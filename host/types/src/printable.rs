//! Untrusted text for logs and terminals.

/// Replaces each control character by a blank, so that the text can neither forge a log line nor
/// control a terminal.
///
/// ```
/// assert_eq!(flyball_types::printable("a\nb\u{1b}[2J"), "a b [2J");
/// ```
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
