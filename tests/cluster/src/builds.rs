//! Different builds of a component, for tests that replace a plugin's file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Returns a component with the same behaviour but another digest, by adding a custom section.
pub fn stamped(wasm: &[u8], stamp: &str) -> Vec<u8> {
    let section = [&[5][..], b"stamp", stamp.as_bytes()].concat();
    let length = u8::try_from(section.len()).expect("a stamp is short");
    assert!(length < 0x80, "the LEB128 length must fit in one byte");
    [wasm, &[0, length], &section].concat()
}

/// Replaces a file atomically, by a rename.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path).with_context(|| format!("can't replace {}", path.display()))
}
