//! Follows folders and files: scans them, and waits until they may have changed. Where the operating system reports
//! changes, it is used; elsewhere (network file systems), a periodic scan finds them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The interval between scans while no change is reported.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// A burst of changes has ended when no change was reported for this time.
const QUIET: Duration = Duration::from_millis(50);
/// The longest time that a burst delays the scan.
const LONGEST_BURST: Duration = Duration::from_millis(500);
/// A file that was modified more recently than this may be incomplete.
pub(crate) const FRESH: Duration = Duration::from_millis(200);

/// Metadata that differs between two contents of a path, so that the file need not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Tells a folder or a file from another one with the same name. An inode number can be reused, so the time of creation
/// is compared as well, where the file system stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

/// The followed folders. Only files with one extension are found in them.
pub(crate) struct Folders {
    folders: Vec<PathBuf>,
    extension: &'static str,
    /// The interval between scans while no change is reported.
    scan_interval: Duration,
    /// The files of the last scan.
    found: BTreeMap<PathBuf, Stamp>,
    notifications: mpsc::Receiver<()>,
    watcher: Option<RecommendedWatcher>,
    /// The watched paths. A path whose folder was replaced has to be watched again.
    watched: BTreeMap<PathBuf, Identity>,
    last_scan: Instant,
    /// The burst of changes since then. It is stored here so that dropping the future of [`Folders::changed`] loses
    /// nothing.
    burst: Option<Burst>,
}

/// A burst of changes that has not ended.
#[derive(Clone, Copy)]
struct Burst {
    /// Time at which it ends if no further change is reported.
    quiet: Instant,
    /// Time at which it ends at the latest.
    latest: Instant,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) found: BTreeMap<PathBuf, Stamp>,
    /// The folders that could not be read, with the error. Their files of the last scan count as found.
    pub(crate) unreadable: BTreeMap<PathBuf, String>,
}

impl Folders {
    /// Follows these folders. A path of a file is followed as this one file, whatever its extension.
    pub(crate) fn new(folders: Vec<PathBuf>, extension: &'static str) -> Self {
        let (sender, notifications) = mpsc::channel(1);
        let tell = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(
                |event| !matches!(event.kind, notify::EventKind::Access(access) if !is_end(access)),
            ) {
                // One queued notification suffices.
                let _ = sender.try_send(());
            }
        };
        let watcher = match notify::recommended_watcher(tell) {
            Ok(watcher) => Some(watcher),
            Err(error) if !folders.is_empty() => {
                tracing::warn!(%error, "the system can't report changed files: the folders are scanned every {} s", SCAN_INTERVAL.as_secs());
                None
            }
            Err(_) => None,
        };
        let (found, watched) = (BTreeMap::new(), BTreeMap::new());
        Self {
            folders,
            extension,
            scan_interval: SCAN_INTERVAL,
            found,
            notifications,
            watcher,
            watched,
            last_scan: Instant::now(),
            burst: None,
        }
    }

    /// Waits until something may have changed. The future can be dropped: no change is lost.
    pub(crate) async fn changed(&mut self) {
        if self.folders.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let due = self
                .burst
                .map_or(self.last_scan + self.scan_interval, |burst| {
                    burst.quiet.min(burst.latest)
                });
            match timeout_at(due, self.notifications.recv()).await {
                Ok(Some(())) => {
                    let now = Instant::now();
                    let latest = self.burst.map_or(now + LONGEST_BURST, |burst| burst.latest);
                    self.burst = Some(Burst {
                        quiet: now + QUIET,
                        latest,
                    });
                }
                // No watcher is running.
                Ok(None) => return sleep_until(due).await,
                Err(_) => return,
            }
        }
    }

    /// Scans the folders on a blocking thread. Returns none if the scan panicked, which would be a bug.
    pub(crate) async fn scan(mut self) -> Option<(Self, Scan)> {
        let scan = move || {
            let scan = self.scan_now();
            (self, scan)
        };
        tokio::task::spawn_blocking(scan).await.ok()
    }

    /// Scans the folders. Blocks.
    fn scan_now(&mut self) -> Scan {
        self.last_scan = Instant::now();
        self.burst = None;
        // The first call may find a folder that is created before its parent is watched. The second call watches that
        // folder.
        self.watch();
        self.watch();
        let mut scan = Scan::default();
        for folder in &self.folders {
            match read(folder, self.extension) {
                Ok(found) => scan.found.extend(found),
                Err(error) => {
                    // A folder that can't be read doesn't mean that its files were deleted.
                    let kept = self
                        .found
                        .iter()
                        .filter(|(path, _)| path.starts_with(folder));
                    scan.found
                        .extend(kept.map(|(path, stamp)| (path.clone(), *stamp)));
                    scan.unreadable.insert(folder.clone(), error.to_string());
                }
            }
        }
        self.found.clone_from(&scan.found);
        scan
    }

    /// Watches each folder. Its parent is watched, too, while the folder does not exist or is a symbolic link, which
    /// can be changed. Other parents are not watched, because unrelated files may be written there often.
    fn watch(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let mut wanted: BTreeMap<&Path, Identity> = BTreeMap::new();
        let mut want = |path| {
            if let Ok(metadata) = std::fs::metadata(path) {
                wanted.insert(path, Identity::of(&metadata));
            }
        };
        for folder in &self.folders {
            want(folder.as_path());
            let is_folder =
                std::fs::symlink_metadata(folder).is_ok_and(|metadata| !metadata.is_symlink());
            if !is_folder && let Some(parent) = folder.parent() {
                want(if parent.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    parent
                });
            }
        }
        self.watched.retain(|path, own| {
            let stays = wanted.get(path.as_path()) == Some(own);
            if !stays {
                let _ = watcher.unwatch(path);
            }
            stays
        });
        for (path, identity) in wanted {
            if !self.watched.contains_key(path)
                && watcher.watch(path, RecursiveMode::NonRecursive).is_ok()
            {
                self.watched.insert(path.to_owned(), identity);
            }
        }
    }
}

impl Identity {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: metadata.created().ok(),
        }
    }
}

impl Stamp {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// A stamp for tests. Each number stands for another content.
    #[cfg(test)]
    pub(crate) fn numbered(number: u64) -> Self {
        Self {
            device: 0,
            inode: number,
            bytes: 0,
            modified: (0, 0),
            changed: (0, 0),
        }
    }

    /// The time to wait before the content is read, because a writer may not have finished.
    pub(crate) fn wait(&self) -> Duration {
        let since = Duration::new(
            self.modified.0.max(0) as u64,
            self.modified.1.clamp(0, 999_999_999) as u32,
        );
        let age = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH + since)
            .unwrap_or(FRESH);
        FRESH.saturating_sub(age)
    }
}

/// Whether a writer closed the file. Other kinds of access change nothing.
fn is_end(access: notify::event::AccessKind) -> bool {
    matches!(
        access,
        notify::event::AccessKind::Close(notify::event::AccessMode::Write)
    )
}

/// The files of a folder with this extension. Symbolic links are followed. For a file, the file itself.
fn read(path: &Path, extension: &str) -> io::Result<Vec<(PathBuf, Stamp)>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_dir() {
        return Ok(vec![(path.to_owned(), Stamp::of(&metadata))]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        // Tools write hidden files before they rename them, and a mounted ConfigMap has hidden folders.
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden || path.extension().is_none_or(|found| found != extension) {
            continue;
        }
        // A file that was deleted meanwhile and a dangling link are left out. A device is found, so that its error is
        // reported.
        if let Ok(metadata) = std::fs::metadata(&path)
            && !metadata.is_dir()
        {
            found.push((path, Stamp::of(&metadata)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(scan: &Scan) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        scan.found.keys().map(name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_reported_change_is_not_lost_when_the_wait_is_dropped() {
        let home = tempfile::tempdir().unwrap();
        let mut folders = Folders::new(vec![home.path().to_owned()], "wasm");
        let (sender, notifications) = mpsc::channel(1);
        folders.notifications = notifications;
        folders.scan_now();
        let begun = Instant::now();
        sender.try_send(()).unwrap();
        while tokio::time::timeout(QUIET / 5, folders.changed())
            .await
            .is_err()
        {}
        assert!(
            (QUIET..LONGEST_BURST).contains(&begun.elapsed()),
            "{:?}",
            begun.elapsed()
        );
        folders.scan_now();
        let begun = Instant::now();
        folders.changed().await;
        assert_eq!(begun.elapsed(), SCAN_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_watcher_scans_are_periodic() {
        let home = tempfile::tempdir().unwrap();
        let mut folders = Folders::new(vec![home.path().to_owned()], "wasm");
        folders.notifications = mpsc::channel(1).1;
        folders.scan_now();
        let begun = Instant::now();
        folders.changed().await;
        assert_eq!(begun.elapsed(), SCAN_INTERVAL);
    }

    #[test]
    fn only_whole_files_with_the_extension_are_found() {
        let home = tempfile::tempdir().unwrap();
        for name in ["b.wasm", "a.wasm", ".a.wasm.tmp", ".hidden.wasm", "c.txt"] {
            std::fs::write(home.path().join(name), name).unwrap();
        }
        std::fs::create_dir(home.path().join("folder.wasm")).unwrap();
        symlink("nowhere", home.path().join("link.wasm")).unwrap();
        let mut folders = Folders::new(vec![home.path().to_owned()], "wasm");
        assert_eq!(names(&folders.scan_now()), ["a.wasm", "b.wasm"]);
    }

    #[test]
    fn a_changed_link_is_another_content() {
        let home = tempfile::tempdir().unwrap();
        for version in ["..1", "..2"] {
            std::fs::create_dir(home.path().join(version)).unwrap();
            std::fs::write(home.path().join(version).join("a.wasm"), version).unwrap();
        }
        symlink("..1", home.path().join("..data")).unwrap();
        symlink("..data/a.wasm", home.path().join("a.wasm")).unwrap();
        let mut folders = Folders::new(vec![home.path().to_owned()], "wasm");
        let before = folders.scan_now().found;
        symlink("..2", home.path().join("..new")).unwrap();
        std::fs::rename(home.path().join("..new"), home.path().join("..data")).unwrap();
        let after = folders.scan_now().found;
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>()
        );
        assert_ne!(before, after);
    }

    #[test]
    fn the_files_of_an_unreadable_folder_count_as_found() {
        let home = tempfile::tempdir().unwrap();
        let plugins = home.path().join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::fs::write(plugins.join("a.wasm"), "").unwrap();
        let mut folders = Folders::new(vec![plugins.clone()], "wasm");
        assert_eq!(folders.scan_now().found.len(), 1);
        std::fs::rename(&plugins, home.path().join("away")).unwrap();
        let scan = folders.scan_now();
        assert_eq!((scan.found.len(), scan.unreadable.len()), (1, 1));
        std::fs::create_dir(&plugins).unwrap();
        let scan = folders.scan_now();
        assert_eq!((scan.found.len(), scan.unreadable.len()), (0, 0));
    }

    #[test]
    fn a_parent_is_watched_only_while_the_folder_is_missing_or_a_link() {
        let home = tempfile::tempdir().unwrap();
        let [plugins, link] = ["plugins", "link"].map(|name| home.path().join(name));
        let mut folders = Folders::new(vec![plugins.clone()], "wasm");
        let watched = |folders: &mut Folders| {
            folders.scan_now();
            folders.watched.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(watched(&mut folders), [home.path()]);
        std::fs::create_dir(&plugins).unwrap();
        assert_eq!(watched(&mut folders), [plugins.as_path()]);
        symlink("plugins", &link).unwrap();
        assert_eq!(
            watched(&mut Folders::new(vec![link.clone()], "wasm")),
            [home.path(), &link]
        );
        std::fs::remove_dir(&plugins).unwrap();
        assert_eq!(watched(&mut folders), [home.path()]);
    }

    #[tokio::test]
    async fn changes_are_reported_in_a_folder_that_was_created_again() {
        let home = tempfile::tempdir().unwrap();
        let plugins = home.path().join("plugins");
        let mut folders = Folders::new(vec![plugins.clone()], "wasm");
        // Only the watcher can end a wait.
        folders.scan_interval = Duration::from_secs(24 * 60 * 60);
        assert!(folders.scan_now().found.is_empty());
        for name in ["a.wasm", "b.wasm"] {
            std::fs::create_dir(&plugins).unwrap();
            next_scan(&mut folders).await;
            std::fs::write(plugins.join(name), name).unwrap();
            while names(&next_scan(&mut folders).await) != [name] {}
            std::fs::remove_dir_all(&plugins).unwrap();
            while next_scan(&mut folders).await.unreadable.is_empty() {}
        }
    }

    /// Waits for a change and scans. The deadline is for a watcher that reports nothing.
    async fn next_scan(folders: &mut Folders) -> Scan {
        let deadline = Duration::from_secs(60);
        let changed = tokio::time::timeout(deadline, folders.changed()).await;
        changed.expect("the watcher reports the change");
        folders.scan_now()
    }
}
