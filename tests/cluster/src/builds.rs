//! Builds of one component that take the place of another.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A build of a component that differs in nothing that runs: a section that says so is added.
pub fn stamped(wasm: &[u8], stamp: &str) -> Vec<u8> {
    let section = [&[5][..], b"stamp", stamp.as_bytes()].concat();
    let length = u8::try_from(section.len()).expect("a stamp is short");
    assert!(length < 0x80, "one byte holds the length");
    [wasm, &[0, length], &section].concat()
}

/// Writes a file as those do who replace one that may be read: beside it, and then over it.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path).with_context(|| format!("can't replace {}", path.display()))
}
