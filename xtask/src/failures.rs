//! Collects the failures in the output of `cargo test`, so that they stand together at its end.

use std::collections::VecDeque;

/// Starts the output of a failed test.
const START: &str = "---- ";
/// Ends the first part of a failure that is kept.
const BACKTRACES: [&str; 2] = ["Stack backtrace:", "stack backtrace:"];
/// The most lines kept of one failure. A panic's message is at its end.
const MAX_LINES: usize = 60;

/// The failures so far.
#[derive(Default)]
pub(crate) struct Failures {
    failures: Vec<Failure>,
    /// Whether the next line is of the last failure.
    is_within: bool,
}

/// A failed test.
struct Failure {
    name: String,
    /// The last lines that it printed before the backtrace.
    lines: VecDeque<String>,
}

impl Failures {
    /// Reads the next line of the output.
    pub(crate) fn read(&mut self, line: &str) {
        let name = line.strip_prefix(START).and_then(|rest| {
            rest.strip_suffix(" stdout ----")
                .or_else(|| rest.strip_suffix(" ----"))
        });
        if let Some(name) = name {
            self.failures.push(Failure {
                name: name.to_owned(),
                lines: VecDeque::new(),
            });
            self.is_within = true;
            return;
        }
        // The list of the names of the failed tests comes after their output.
        let is_end = line == "failures:" || BACKTRACES.contains(&line.trim());
        self.is_within &= !is_end;
        if let Some(failure) = self.failures.last_mut().filter(|_| self.is_within)
            && !line.is_empty()
        {
            if failure.lines.len() == MAX_LINES {
                failure.lines.pop_front();
            }
            failure.lines.push_back(line.to_owned());
        }
    }

    /// The number of failed tests.
    pub(crate) fn len(&self) -> usize {
        self.failures.len()
    }

    /// All failures, as text.
    pub(crate) fn report(&self) -> String {
        let each = self.failures.iter().map(|failure| {
            let lines = failure.lines.iter().map(|line| format!("    {line}\n"));
            format!("  {}\n{}", failure.name, lines.collect::<String>())
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_with_its_backtrace_or_the_list_of_names() {
        let output = "running 3 tests\n\
            test a ... FAILED\ntest b ... ok\ntest c ... FAILED\n\n\
            failures:\n\n---- a stdout ----\nError: it failed\n\nStack backtrace:\n   0: main\n\n\
            ---- c stdout ----\n\nthread 'c' panicked at src/lib.rs:1:1:\nassertion failed\n\n\
            failures:\n    a\n    c\n\ntest result: FAILED. 1 passed; 2 failed\n";
        let mut failures = Failures::default();
        for line in output.lines() {
            failures.read(line);
        }
        assert_eq!(failures.len(), 2);
        assert_eq!(
            failures.report(),
            "  a\n    Error: it failed\n  c\n    thread 'c' panicked at src/lib.rs:1:1:\n    assertion failed\n"
        );
    }

    #[test]
    fn the_last_lines_of_a_long_failure_are_kept() {
        let mut failures = Failures::default();
        failures.read("---- long stdout ----");
        for line in 1..=100 {
            failures.read(&line.to_string());
        }
        let report = failures.report();
        assert_eq!(report.lines().count(), MAX_LINES + 1);
        assert!(report.ends_with("    100\n"), "{report}");
    }
}
