//! The text of an error together with its causes, for log lines and messages.

use std::error::Error;

/// Returns the error and its causes, separated by `: `. A cause whose text an outer error already contains is left out.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
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
}
