//! Reads files of limited size. Symbolic links are followed, because mounted ConfigMaps consist of them.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Reads a regular file of at most `limit` bytes. Blocks for as long as the file system takes.
///
/// # Errors
/// The file can't be read, is larger (`FileTooLarge`), or is not a regular file: a FIFO would block, and a device may
/// have no end.
pub fn read(path: impl AsRef<Path>, limit: usize) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    // Opening a device may have an effect, so the file is checked before and after it is opened.
    check_regular(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    contents(file, limit)
}

/// Reads a text in UTF-8 like [`read`].
///
/// # Errors
/// As for [`read`], or the file is not UTF-8 (`InvalidData`).
pub fn read_to_string(path: impl AsRef<Path>, limit: usize) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

/// Reads an open file that must be a regular one.
pub(crate) fn contents(file: File, limit: usize) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    check_regular(&metadata)?;
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    if size > limit {
        return Err(too_large(limit));
    }
    let mut bytes = Vec::with_capacity(size);
    // It may grow meanwhile.
    file.take((limit as u64).saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

pub(crate) fn check_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other(
            "it is a device, a FIFO or a socket, and must be a regular file",
        ));
    }
    Ok(())
}

fn too_large(limit: usize) -> io::Error {
    let message = format!("it has more than the limit of {limit} bytes");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let home = tempfile::tempdir().unwrap();
        let [path, link] = ["file", "link"].map(|name| home.path().join(name));
        fs::write(&path, "12345").unwrap();
        symlink("file", &link).unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read_to_string(&link, 5).unwrap(), "12345");
        let error = read(&path, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("4 bytes"), "{error}");
    }

    #[test]
    fn a_file_without_end_is_read_up_to_the_limit() {
        // The system reports a size of 0 for such files.
        let file = "/proc/self/smaps";
        if Path::new(file).exists() {
            assert_eq!(
                read(file, 10).unwrap_err().kind(),
                io::ErrorKind::FileTooLarge
            );
        }
    }

    #[test]
    fn a_huge_file_is_refused_without_being_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("sparse");
        File::create(&path).unwrap().set_len(10 << 30).unwrap();
        let error = read(&path, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let home = tempfile::tempdir().unwrap();
        let [fifo, link] = ["fifo", "link"].map(|name| home.path().join(name));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        symlink("/dev/zero", &link).unwrap();
        for path in [fifo.as_path(), &link, home.path()] {
            assert!(read(path, 1 << 20).is_err(), "{}", path.display());
        }
    }
}
