//! The text of an error together with its causes, for log lines and messages.

use std::error::Error;

/// Returns the error and its causes on one line, separated by `: `. Each contributes its first line, without a final
/// full stop. A cause whose text an outer error already contains is left out.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        next = error.source();
        let cause = error.to_string();
        let first = cause.lines().next().unwrap_or_default();
        let first = first.trim().trim_end_matches('.');
        if text.is_empty() {
            text.push_str(first);
        } else if !text.contains(first) {
            text.push_str(": ");
            text.push_str(first);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Link(&'static str, Option<Box<Link>>);

    impl fmt::Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Link {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    fn chain(texts: &[&'static str]) -> String {
        let error = texts
            .iter()
            .rev()
            .fold(None, |cause, text| Some(Box::new(Link(text, cause))));
        error_chain(&*error.expect("a text"))
    }

    #[test]
    fn the_causes_follow_the_error() {
        assert_eq!(
            chain(&["cannot list pods", "connection refused", "os error 111"]),
            "cannot list pods: connection refused: os error 111"
        );
    }

    #[test]
    fn a_cause_that_the_error_already_shows_is_not_repeated() {
        assert_eq!(
            chain(&["cannot list pods: refused", "refused", "os error 111"]),
            "cannot list pods: refused: os error 111"
        );
    }

    #[test]
    fn the_text_is_one_line() {
        assert_eq!(
            chain(&["cannot read the policy.", "it is not TOML\n1 | ab\n  | ^"]),
            "cannot read the policy: it is not TOML"
        );
    }
}
