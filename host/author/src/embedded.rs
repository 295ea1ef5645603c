//! The files that the binary carries: templates, SDKs and the world.

use std::path::Path;

use anyhow::{Context, Result};

/// A file: its path in the folder that it was embedded from, and its content.
pub(crate) type File = (&'static str, &'static [u8]);

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Writes a file, and the folders that it lies in. A file with this content is left alone, so that build tools don't
/// take it for changed.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|existing| existing == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("can't create {}", folder.display()))?;
    }
    std::fs::write(path, content).with_context(|| format!("can't write {}", path.display()))
}

/// Writes embedded files into a folder.
pub(crate) fn write_all(files: &[File], folder: &Path) -> Result<()> {
    files
        .iter()
        .try_for_each(|(path, content)| write(&folder.join(path), content))
}
