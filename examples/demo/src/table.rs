//! The demo's output: a title for each step, and a row for each reconcile that wrote something.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::host::Reconciled;

/// A step that succeeded.
pub(super) struct Played {
    pub(super) title: String,
    /// The controllers that wrote something.
    pub(super) controllers: BTreeSet<String>,
    pub(super) took: Duration,
}

/// Prints to standard output, with colour on a terminal.
pub(super) struct Table {
    colour: bool,
}

/// The time since the start of a step.
pub(super) fn since(start: Timestamp) -> Duration {
    Timestamp::now().duration_since(start).unsigned_abs()
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// Begins a step.
    pub(super) fn title(&self, title: &str) {
        println!("\n{}", self.paint("1", title));
        let head = format!(
            "  {:>8}  {:<25} {:<46} {:>9}  {}",
            "after", "guest", "saw", "took", "wrote"
        );
        println!("{}", self.paint("2", &head));
    }

    /// Shows the reconciles that wrote something, with a line for each write.
    pub(super) fn rows(&self, start: Timestamp, reconciled: &[Reconciled]) {
        for row in reconciled.iter().filter(|row| !row.wrote.is_empty()) {
            let after = format!("{:.3} s", row.timestamp.duration_since(start).as_secs_f64());
            let took = format!("{:.1} ms", row.took_ms);
            let guest = self.paint("36", &format!("{:<25}", row.controller));
            let saw = shorten(
                if row.why.is_empty() {
                    &row.key
                } else {
                    &row.why
                },
                46,
            );
            let wrote = row.wrote.replace(", ", &format!("\n{:96}", ""));
            println!("  {after:>8}  {guest} {saw:<46} {took:>9}  {wrote}");
        }
    }

    /// Ends a step.
    pub(super) fn end(&self, start: Timestamp, result: &str) {
        let line = format!("✔ {result} after {:.2} s", since(start).as_secs_f64());
        println!("  {}", self.paint("32", &line));
    }

    /// Shows all steps.
    pub(super) fn summary(&self, played: &[Played]) {
        println!("\n{}", self.paint("1", "Summary"));
        let head = format!("  {:>8}  {:<60}  {}", "took", "step", "who wrote");
        println!("{}", self.paint("2", &head));
        for step in played {
            let took = format!("{:.2} s", step.took.as_secs_f64());
            let controllers: Vec<&str> = step.controllers.iter().map(String::as_str).collect();
            let controllers = self.paint("36", &controllers.join(", "));
            println!("  {took:>8}  {:<60}  {controllers}", step.title);
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.into()
        }
    }
}

/// Shortens a text to `width` characters. Removes the middle, because names differ at their ends.
fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.into();
    }
    let head: String = text.chars().take(width / 2).collect();
    let tail: String = text
        .chars()
        .skip(length - (width - width / 2 - 1))
        .collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_long_text_is_removed() {
        assert_eq!(shorten("short", 10), "short");
        assert_eq!(shorten("abcdefghijklmnop", 9), "abcd…mnop");
    }
}
