//! The targets, with their invariants: a file for each group of formats.

mod binary;
mod description;
mod json;
mod policy;
mod recording;
mod registry;

mod text;
mod visibility;

/// The outcome in words, or the invariant that it breaks.
pub type Verdict = Result<String, String>;

/// A parser of untrusted input.
pub struct Target {
    /// Also the name of its folder in the corpus.
    pub name: &'static str,
    /// Returns texts with a meaning in the format, which mutations insert.
    pub tokens: fn() -> Vec<&'static str>,
    /// Parses an input and checks the invariants.
    pub feed: fn(&[u8]) -> Verdict,
}

pub const TARGETS: &[Target] = &[
    binary::COMPONENT,
    description::DESCRIPTION,
    visibility::DESCRIPTION_POLICY,
    visibility::HOST_CALLS,
    policy::POLICY,
    recording::RECORDING,
    registry::REGISTRY,
    text::FIELD_PATH,
    text::LABEL_SELECTOR,
    text::FIELD_SELECTOR,
    text::REFERENCE,
    text::RESOURCE_PATH,
    json::PATCH,
    json::MASK,
    binary::PROTOBUF,
];

/// The bytes before the first newline, and the bytes after it.
fn split_first_line(input: &[u8]) -> (&[u8], &[u8]) {
    let at = input
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(input.len());
    (&input[..at], input.get(at + 1..).unwrap_or_default())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what}: {found:?} differs from {expected:?}"))
    }
}
