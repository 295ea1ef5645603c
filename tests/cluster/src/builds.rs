//! Builds of a component that replace one another.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Returns a build of a component that behaves the same but has another digest: a custom section is
/// added.
pub fn stamped(wasm: &[u8], stamp: &str) -> Vec<u8> {
    let section = [&[5][..], b"stamp", stamp.as_bytes()].concat();
    let length = u8::try_from(section.len()).expect("a stamp is short");
    assert!(length < 0x80, "one byte holds the length");
    [wasm, &[0, length], &section].concat()
}

/// Replaces a file atomically: writes beside it, then renames.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path).with_context(|| format!("can't replace {}", path.display()))
}
