//! Resource versions: decimal numbers of any length.
//!
//! Upstream: staging/src/k8s.io/apimachinery/pkg/util/resourceversion/resourceversion.go: CompareResourceVersion.

use std::cmp::Ordering;

/// A well-formed resource version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version<'a>(&'a str);

impl<'a> Version<'a> {
    /// # Errors
    /// The text is not a number, or begins with a zero. The error is a text for people.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        if text.is_empty() || text.starts_with('0') || !is_number {
            return Err(format!("resource version is not well formed: {text}"));
        }
        Ok(Self(text))
    }
}

impl Ord for Version<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, other) = (self.0, other.0);
        own.len().cmp(&other.len()).then_with(|| own.cmp(other))
    }
}

impl PartialOrd for Version<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
