//! Kinds by their names. A misspelt kind panics, so that the first test that calls `describe` fails.

use flyball_types::{Kind, KindPattern};

/// Parses a kind.
///
/// # Panics
/// If the name does not have the form `apps/v1/ReplicaSet`.
pub(super) fn kind(name: &str) -> Kind {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Parses a kind or `*`.
///
/// # Panics
/// If the text is neither a kind nor `*`.
pub(super) fn pattern(text: &str) -> KindPattern {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
