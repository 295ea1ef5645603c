//! Tells from a file's metadata whether it has changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// File systems may give changes within this time the same timestamp.
const RESOLUTION: Duration = Duration::from_secs(2);

/// The state of a file: a later change of its content has another stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// When the content or the metadata changed last: seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamps of both files. None if one can't be read, or has changed so recently that another change
    /// might have the same stamp.
    pub(super) fn of_all(files: [&Path; 2]) -> Option<[Self; 2]> {
        let [first, second] = files.map(|file| Self::of(file, SystemTime::now()));
        Some([first?, second?])
    }

    fn of(file: &Path, now: SystemTime) -> Option<Self> {
        let metadata = fs::metadata(file).ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        let since_epoch = Duration::new(changed.0.try_into().ok()?, changed.1.try_into().ok()?);
        let age = now.duration_since(UNIX_EPOCH + since_epoch).ok()?;
        (age > RESOLUTION).then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_shows_each_change_and_none_is_made_of_a_recent_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let later = SystemTime::now() + RESOLUTION * 2;
        assert_eq!(Stamp::of(&file, later), None, "no file");
        fs::write(&file, "a").unwrap();
        let first = Stamp::of(&file, later);
        assert!(first.is_some() && first == Stamp::of(&file, later));
        assert_eq!(Stamp::of(&file, SystemTime::now()), None, "recent");
        assert_eq!(Stamp::of(&file, UNIX_EPOCH), None, "a clock that is behind");
        let other = folder.path().join("next");
        fs::write(&other, "b").unwrap();
        fs::rename(&other, &file).unwrap();
        assert_ne!(Stamp::of(&file, later), first, "another file of that name");
    }
}
