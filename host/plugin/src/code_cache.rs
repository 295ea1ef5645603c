//! The code cache: a directory of compiled code, so that a restart need not compile again. Its files are run as native
//! code. So only files that this process's user wrote are used, and each file has a digest, so that a truncated or
//! corrupted file is compiled again.
//!
//! Files are mapped, not read. Their pages are clean, so that the system can reclaim those that are not in use, and
//! shared by all processes that map them. The mapped file is the file that was checked, even if its name is replaced in
//! between. A file is never modified once it has its name. Only this user could do that, and this user could also
//! replace the host.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flyball_files::{OthersMay, PrivateFolder};
use sha2::{Digest, Sha256};

use crate::error::EngineError;

/// Follows the code in each file, before the code's SHA-256. Both are at the end, so that the code begins at a page
/// boundary.
const MAGIC: &[u8; 8] = b"flyball2";
const DIGEST: usize = 32;
const TRAILER: usize = MAGIC.len() + DIGEST;

/// A file of compiled code that was checked, or that this process has just written. This refers to the same file even
/// if another file takes its name.
#[derive(Debug)]
pub(crate) struct CachedFile {
    file: File,
    path: PathBuf,
}

impl CachedFile {
    /// A path that opens this file.
    pub(crate) fn path(&self) -> PathBuf {
        if cfg!(target_os = "linux") {
            return format!("/proc/self/fd/{}", self.file.as_raw_fd()).into();
        }
        self.path.clone()
    }
}

/// The directory of compiled code.
#[derive(Debug)]
pub(crate) struct CodeCache {
    folder: PrivateFolder,
    /// A hash of the engine's version, settings and target. Code for others is not found.
    compatibility: u64,
    /// Maximum size of all files, in bytes.
    capacity: u64,
}

impl CodeCache {
    /// Opens a directory, and creates it if it does not exist. Fails if other users have access to it.
    pub(crate) fn open(
        directory: &Path,
        engine: &wasmtime::Engine,
        capacity: u64,
    ) -> Result<Self, EngineError> {
        let folder = PrivateFolder::open(directory, OthersMay::Nothing).map_err(|error| {
            EngineError::Cache {
                path: directory.into(),
                reason: error.to_string(),
            }
        })?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let compatibility = hasher.finish();
        Ok(Self {
            folder,
            compatibility,
            capacity,
        })
    }

    /// Returns the compiled form of the component with this digest, if the cache has it and it is intact.
    pub(crate) fn get(&self, digest: &str) -> Option<CachedFile> {
        let name = self.name(digest);
        match self.read(&name) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %self.path(&name).display(), %error, "can't use a compiled plugin from the cache, so it is compiled again");
                None
            }
        }
    }

    /// Stores the compiled form of the component with this digest, and returns its file, which needs no check. None
    /// after a failure, or if the code exceeds the capacity: then it is only compiled again at the next start.
    pub(crate) fn put(&self, digest: &str, code: &[u8]) -> Option<CachedFile> {
        let name = self.name(digest);
        let written = self.folder.write(&name, |file| {
            file.write_all(code)?;
            file.write_all(MAGIC)?;
            file.write_all(&Sha256::digest(code))
        });
        if let Err(error) = written.and_then(|()| self.trim()) {
            tracing::warn!(path = %self.path(&name).display(), %error, "can't store a compiled plugin in the cache");
            return None;
        }
        let file = self.folder.file(&name).ok()?;
        Some(CachedFile {
            file,
            path: self.path(&name),
        })
    }

    /// Deletes a file that the engine rejected.
    pub(crate) fn remove(&self, digest: &str) {
        let _ = self.folder.remove(self.name(digest));
    }

    fn name(&self, digest: &str) -> String {
        format!("{digest}-{:016x}.cwasm", self.compatibility)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> io::Result<CachedFile> {
        let mut file = self.folder.file(name)?;
        let corrupted = || io::Error::other("it is truncated or corrupted");
        let length = file
            .metadata()?
            .len()
            .checked_sub(TRAILER as u64)
            .ok_or_else(corrupted)?;
        let mut digest = Sha256::new();
        io::copy(&mut Read::by_ref(&mut file).take(length), &mut digest)?;
        let mut trailer = [0; TRAILER];
        file.read_exact(&mut trailer)?;
        let (magic, written) = trailer.split_at(MAGIC.len());
        if magic != MAGIC || written != &digest.finalize()[..] {
            return Err(corrupted());
        }
        // The modification time is the time of the last use. If setting it fails, the file is only deleted earlier.
        let _ = file.set_modified(SystemTime::now());
        Ok(CachedFile {
            file,
            path: self.path(name),
        })
    }

    /// Deletes the least recently used files until the rest fits the capacity.
    fn trim(&self) -> io::Result<()> {
        let mut files = self.folder.entries()?;
        files.sort_by_key(|file| file.modified);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if total <= self.capacity {
                break;
            }
            let _ = self.folder.remove(file.name);
            total -= file.bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;

    use super::*;

    fn open(directory: &Path, capacity: u64) -> Result<CodeCache, EngineError> {
        CodeCache::open(directory, &wasmtime::Engine::default(), capacity)
    }

    #[test]
    fn only_stored_code_is_found() {
        let home = tempfile::tempdir().unwrap();
        let cache = open(&home.path().join("a/b"), 1000).unwrap();
        cache.put("one", b"code");
        let cached = cache.get("one").unwrap();
        assert!(fs::read(cached.path()).unwrap().starts_with(b"code"));
        assert!(cache.get("two").is_none());
        cache.remove("one");
        assert!(cache.get("one").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_path_opens_the_checked_file_after_another_takes_its_name() {
        let home = tempfile::tempdir().unwrap();
        let cache = open(&home.path().join("cache"), 1000).unwrap();
        cache.put("one", b"checked");
        let cached = cache.get("one").unwrap();
        cache.put("one", b"another");
        assert!(fs::read(cached.path()).unwrap().starts_with(b"checked"));
        cache.remove("one");
        assert!(fs::read(cached.path()).unwrap().starts_with(b"checked"));
    }

    #[test]
    fn a_truncated_or_changed_file_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = open(&home.path().join("cache"), 1000).unwrap();
        cache.put("one", b"some code");
        let path = cache.path(&cache.name("one"));
        let whole = fs::read(&path).unwrap();
        for broken in [
            &whole[..whole.len() - 1],
            &whole[..10],
            &[],
            &[&whole[..], b"!"].concat(),
        ] {
            fs::write(&path, broken).unwrap();
            assert!(cache.get("one").is_none());
        }
        fs::write(&path, &whole).unwrap();
        assert!(cache.get("one").is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        assert!(cache.get("one").is_none());
    }

    #[test]
    fn a_symbolic_link_is_not_followed_to_code() {
        let home = tempfile::tempdir().unwrap();
        let cache = open(&home.path().join("cache"), 1000).unwrap();
        cache.put("one", b"code");
        let (path, elsewhere) = (cache.path(&cache.name("one")), home.path().join("code"));
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(cache.get("one").is_none());
    }

    #[test]
    fn a_directory_that_others_can_access_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("cache");
        open(&path, 0).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(
            open(&path, 0)
                .unwrap_err()
                .to_string()
                .contains("mode is 770")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&path, home.path().join("link")).unwrap();
        assert!(
            open(&home.path().join("link"), 0)
                .unwrap_err()
                .to_string()
                .contains("a symbolic link")
        );
        fs::write(home.path().join("file"), "").unwrap();
        assert!(open(&home.path().join("file"), 0).is_err());
    }

    #[test]
    fn the_least_recently_used_files_are_deleted_first() {
        let home = tempfile::tempdir().unwrap();
        let cache = open(&home.path().join("cache"), 3 * (TRAILER as u64 + 10)).unwrap();
        let names = ["one", "two", "three"];
        for (age, name) in names.iter().enumerate() {
            cache.put(name, &[0; 10]);
            let at = SystemTime::now() - Duration::from_secs(1000 - age as u64);
            File::open(cache.path(&cache.name(name)))
                .unwrap()
                .set_modified(at)
                .unwrap();
        }
        assert!(cache.get("one").is_some());
        cache.put("four", &[0; 10]);
        let found = ["one", "two", "three", "four"].map(|name| cache.get(name).is_some());
        assert_eq!(found, [true, false, true, true]);
    }
}
