//! The random ends of names that the API server generates.

/// The characters of a random end.
const CHARACTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
/// The number of characters.
const LENGTH: usize = 5;

/// Whether this can be the end of a generated name.
pub(crate) fn is_generated(suffix: &str) -> bool {
    suffix.len() == LENGTH && is_safe_for_names(suffix)
}

/// Whether a text has only the characters of generated names and of hashes in names.
pub(crate) fn is_safe_for_names(text: &str) -> bool {
    text.chars().all(|character| CHARACTERS.contains(character))
}
