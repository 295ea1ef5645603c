//! The files that the binary carries: templates, SDKs and the world.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use zstd_safe::{decompress, get_frame_content_size};

/// A file: its path in the folder that it was embedded from, and its content.
pub(crate) type File = (&'static str, &'static [u8]);

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The contents of all files, one after the other.
static CONTENTS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let frame = include_bytes!(concat!(env!("OUT_DIR"), "/embedded.zst"));
    let size = get_frame_content_size(frame).ok().flatten();
    let size = size.expect("the build compressed it with its size") as usize;
    let mut contents = Vec::with_capacity(size);
    let unpacked = decompress(&mut contents, frame);
    assert_eq!(unpacked, Ok(size), "the binary is damaged");
    contents
});

/// The files of a table, whose contents begin at this position. Each has a path and a size.
fn files(mut start: usize, table: &[(&'static str, usize)]) -> Vec<File> {
    let file = |&(path, size): &(&'static str, usize)| {
        let content = &CONTENTS[start..start + size];
        start += size;
        (path, content)
    };
    table.iter().map(file).collect()
}

/// Writes a file, and the folders that it lies in. A file that already has this content is not written again, so that
/// build tools don't consider it changed.
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
