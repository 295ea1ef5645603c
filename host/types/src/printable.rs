//! Text from outside, for logs and terminals.

/// The text with a blank for each control character, so that it can neither forge a line nor steer a terminal.
///
/// ```
/// assert_eq!(flyball_types::printable("a\nb\u{1b}[2J"), "a b [2J");
/// ```
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
