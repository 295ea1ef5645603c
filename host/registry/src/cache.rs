//! What was pulled, kept by its digest, in the folder layout of OCI (`blobs/sha256/…`), and the signatures of each manifest.
//! Who can write here can't make the host take anything: each read is held against its digest or its key again.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::signature::Signed;
use crate::{RegistryError, digest};

/// The folder of what was pulled.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where a blob lies, if it is there.
    pub(crate) fn path(&self, of: &str) -> PathBuf {
        self.folder.join("blobs/sha256").join(hex(of))
    }

    /// A blob that is what its digest says.
    pub(crate) fn get(&self, of: &str) -> Option<Vec<u8>> {
        let bytes = std::fs::read(self.path(of)).ok()?;
        (digest(&bytes) == of).then_some(bytes)
    }

    pub(crate) fn put(&self, of: &str, bytes: &[u8]) -> Result<(), RegistryError> {
        write(&self.path(of), bytes)
    }

    /// The signatures of a manifest, not checked.
    pub(crate) fn signatures(&self, of: &str) -> Vec<Signed> {
        let text = std::fs::read(self.signatures_path(of)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(crate) fn put_signatures(&self, of: &str, signed: &[Signed]) -> Result<(), RegistryError> {
        write(
            &self.signatures_path(of),
            serde_json::json!(signed).to_string().as_bytes(),
        )
    }

    fn signatures_path(&self, of: &str) -> PathBuf {
        self.folder
            .join("signatures")
            .join(format!("{}.json", hex(of)))
    }
}

/// A digest as a file's name.
fn hex(digest: &str) -> String {
    digest
        .trim_start_matches("sha256:")
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect()
}

/// Writes a file that is there whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), RegistryError> {
    let folder = path.parent().unwrap_or(path);
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)
    });
    written.map(drop).map_err(|cause| RegistryError::Cache {
        path: path.into(),
        cause,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_in_the_cache_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().into());
        let of = digest(b"abc");
        assert_eq!(cache.get(&of), None);
        cache.put(&of, b"abc").unwrap();
        assert_eq!(cache.get(&of).as_deref(), Some(&b"abc"[..]));
        std::fs::write(cache.path(&of), b"abd").unwrap();
        assert_eq!(cache.get(&of), None);
    }
}
