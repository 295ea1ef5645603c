//! The cache of pulled blobs, by digest in OCI's folder layout (`blobs/sha256/…`), and of the signatures of each
//! manifest.
//!
//! Write access to the folder is not enough to inject a package, because each read is verified again by digest or key.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::signature::Signed;
use crate::{RegistryError, digest};

/// The maximum size of a manifest's cached signatures in bytes.
const MAX_SIGNATURES: usize = 4 * 1024 * 1024;

/// The folder of pulled blobs.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The path of a blob, whether it exists or not.
    pub(crate) fn path(&self, of: &str) -> PathBuf {
        self.folder.join("blobs/sha256").join(hex(of))
    }

    /// A blob of at most `limit` bytes; `None` if it is missing or does not match its digest.
    pub(crate) fn get(&self, of: &str, limit: usize) -> Option<Vec<u8>> {
        let bytes = flyball_files::read(self.path(of), limit).ok()?;
        (digest(&bytes) == of).then_some(bytes)
    }

    pub(crate) fn put(&self, of: &str, bytes: &[u8]) -> Result<(), RegistryError> {
        write(&self.path(of), bytes)
    }

    /// The signatures of a manifest, not verified.
    pub(crate) fn signatures(&self, of: &str) -> Vec<Signed> {
        let text =
            flyball_files::read(self.signatures_path(of), MAX_SIGNATURES).unwrap_or_default();
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

/// A digest as a file name.
fn hex(digest: &str) -> String {
    digest
        .trim_start_matches("sha256:")
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect()
}

/// Writes a file atomically.
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
    fn a_blob_that_was_changed_in_the_cache_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().into());
        let of = digest(b"abc");
        assert_eq!(cache.get(&of, 3), None);
        cache.put(&of, b"abc").unwrap();
        assert_eq!(cache.get(&of, 3).as_deref(), Some(&b"abc"[..]));
        assert_eq!(cache.get(&of, 2), None);
        std::fs::write(cache.path(&of), b"abd").unwrap();
        assert_eq!(cache.get(&of, 3), None);
    }
}
