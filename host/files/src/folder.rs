//! A folder that the host alone writes to. Its files are opened relative to the open folder and without following
//! symbolic links, so that a user who can write to a parent folder can't replace them.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::process::geteuid;

use crate::read::{check_regular, contents};

/// The permissions with which others can write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// The mode of the files.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The access of other users to a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OthersMay {
    Nothing,
    Read,
}

/// A folder of this process's user that nobody else can write to.
#[derive(Debug)]
pub struct PrivateFolder {
    folder: OwnedFd,
    path: PathBuf,
    /// Distinguishes the names of temporary files.
    next_number: AtomicU64,
}

/// A file of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    pub name: OsString,
    pub bytes: u64,
    pub modified: SystemTime,
}

impl PrivateFolder {
    /// Opens a folder, and creates it, closed to others, if it does not exist.
    ///
    /// # Errors
    /// It can't be created or opened, is a symbolic link, belongs to another user, or others may do more than they
    /// should.
    pub fn open(path: &Path, others: OthersMay) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| refusal(format!("it could not be created: {error}")))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
            rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP => {
                refusal("it is a symbolic link or a file".into())
            }
            error => error.into(),
        })?;
        let file = File::from(folder);
        let metadata = file.metadata()?;
        let (forbidden, may) = match others {
            OthersMay::Nothing => (0o077, "but only its owner may have access"),
            OthersMay::Read => (WRITABLE_BY_OTHERS, "but only its owner may write to it"),
        };
        if metadata.mode() & forbidden != 0 {
            let mode = metadata.mode() & 0o777;
            return Err(refusal(format!("its mode is {mode:o}, {may}")));
        }
        let user = geteuid().as_raw();
        if metadata.uid() != user {
            let owner = metadata.uid();
            return Err(refusal(format!(
                "it belongs to user {owner} and this process runs as {user}"
            )));
        }
        Ok(Self {
            folder: file.into(),
            path: path.into(),
            next_number: AtomicU64::new(0),
        })
    }

    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// There is no such file (`NotFound`), or it is not a regular file that only this user can write to.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.folder, checked(name)?, flags, Mode::empty());
        let file = file.map_err(|error| match error {
            rustix::io::Errno::LOOP => refusal("it is a symbolic link".into()),
            error => error.into(),
        })?;
        let file = File::from(file);
        let metadata = file.metadata()?;
        check_regular(&metadata)?;
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(refusal("another user could have written it".into()));
        }
        Ok(file)
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    /// As for [`PrivateFolder::file`], or the file is larger (`FileTooLarge`).
    pub fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        contents(self.file(name)?, limit)
    }

    /// Writes a file that only this user can access, so that it is there as a whole or not at all.
    pub fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let name = checked(name)?;
        let number = self.next_number.fetch_add(1, Relaxed);
        let temporary = format!(".{}-{number}.tmp", std::process::id());
        // It may be left from an earlier process with the same id.
        let _ = unlinkat(&self.folder, &temporary, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.folder, &temporary, flags, FILE_MODE)?;
        let written = write(&mut File::from(file)).and_then(|()| {
            renameat(&self.folder, &temporary, &self.folder, name)?;
            Ok(())
        });
        if written.is_err() {
            let _ = unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
        written
    }

    /// Deletes a file.
    pub fn remove(&self, name: impl AsRef<std::ffi::OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.folder, name.as_ref(), AtFlags::empty())?)
    }

    /// Returns the files that [`PrivateFolder::file`] opens and whose names are UTF-8.
    pub fn entries(&self) -> io::Result<Vec<FolderEntry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_owned());
            // Another process may delete a file meanwhile.
            if let Some(Ok(file)) = name.to_str().map(|name| self.file(name)) {
                let metadata = file.metadata()?;
                entries.push(FolderEntry {
                    name,
                    bytes: metadata.len(),
                    modified: metadata.modified()?,
                });
            }
        }
        Ok(entries)
    }
}

/// Fails unless this is the name of a file in the folder itself.
fn checked(name: &str) -> io::Result<&str> {
    if name.is_empty() || name.contains('/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(name)
}

fn refusal(reason: String) -> io::Error {
    io::Error::other(reason)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{FileType, mknodat};

    use super::*;

    fn write(folder: &PrivateFolder, name: &str, text: &str) {
        folder
            .write(name, |file| file.write_all(text.as_bytes()))
            .unwrap();
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_written_file_is_read_listed_and_removed() {
        let home = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::open(&home.path().join("a/b"), OthersMay::Nothing).unwrap();
        write(&folder, "one", "first");
        write(&folder, "one", "second");
        assert_eq!(folder.read("one", 6).unwrap(), b"second");
        assert_eq!(
            folder.read("one", 5).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        let entries = folder.entries().unwrap();
        assert_eq!((entries.len(), entries[0].bytes), (1, 6));
        let metadata = fs::metadata(folder.path().join("one")).unwrap();
        assert_eq!(metadata.mode() & 0o777, 0o600);
        folder.remove("one").unwrap();
        assert_eq!(
            folder.read("one", 6).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(folder.write("../two", |_| Ok(())).is_err());
    }

    #[test]
    fn a_write_that_fails_leaves_the_file_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let folder = PrivateFolder::open(&home.path().join("a"), OthersMay::Nothing).unwrap();
        write(&folder, "one", "first");
        let failed = folder.write("one", |file| {
            file.write_all(b"se")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(folder.read("one", 100).unwrap(), b"first");
        assert_eq!(folder.entries().unwrap().len(), 1);
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("folder");
        for (mode, others, is_refused) in [
            (0o700, OthersMay::Nothing, false),
            (0o755, OthersMay::Nothing, true),
            (0o755, OthersMay::Read, false),
            (0o775, OthersMay::Read, true),
            (0o702, OthersMay::Read, true),
        ] {
            fs::create_dir_all(&path).unwrap();
            set_mode(&path, mode);
            let opened = PrivateFolder::open(&path, others);
            assert_eq!(opened.is_err(), is_refused, "{mode:o} {others:?}");
            if let Err(error) = opened {
                assert!(error.to_string().contains(&format!("{mode:o}")), "{error}");
            }
        }
    }

    #[test]
    fn a_symbolic_link_is_no_folder() {
        let home = tempfile::tempdir().unwrap();
        let link = home.path().join("link");
        fs::create_dir(home.path().join("folder")).unwrap();
        symlink("folder", &link).unwrap();
        let error = PrivateFolder::open(&link, OthersMay::Read).unwrap_err();
        assert!(error.to_string().contains("a symbolic link"), "{error}");
        fs::write(home.path().join("file"), "").unwrap();
        assert!(PrivateFolder::open(&home.path().join("file"), OthersMay::Read).is_err());
    }

    #[test]
    fn only_regular_files_that_others_cannot_write_to_are_opened() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("folder");
        let folder = PrivateFolder::open(&path, OthersMay::Nothing).unwrap();
        write(&folder, "own", "text");
        write(&folder, "shared", "text");
        set_mode(&path.join("shared"), 0o620);
        symlink("own", path.join("link")).unwrap();
        mknodat(CWD, path.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::create_dir(path.join("inner")).unwrap();
        for name in ["shared", "link", "fifo", "inner"] {
            assert!(folder.file(name).is_err(), "{name}");
        }
        let entries = folder.entries().unwrap();
        assert_eq!(entries.len(), 1, "{entries:?}");
    }

    #[test]
    fn another_folder_that_takes_the_path_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("folder");
        let folder = PrivateFolder::open(&path, OthersMay::Nothing).unwrap();
        write(&folder, "one", "own");
        fs::rename(&path, home.path().join("moved")).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("one"), "planted").unwrap();
        assert_eq!(folder.read("one", 100).unwrap(), b"own");
    }
}
