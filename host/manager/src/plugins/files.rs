//! Follows folders and files: what lies there now, and when it may have changed. The system tells of changes where it can;
//! where it can't (a network's file system), a look now and then finds them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How often a look is taken although nothing was told.
const LOOK: Duration = Duration::from_secs(5);
/// A burst of changes is over when nothing was told for so long...
const QUIET: Duration = Duration::from_millis(50);
/// ...and is looked at all the same after this time.
const BURST: Duration = Duration::from_millis(500);
/// A file that was written a shorter time ago may be half of one.
pub(crate) const FRESH: Duration = Duration::from_millis(200);

/// What tells two contents of a path apart without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What tells a folder or a file from another one of its name. An inode alone may be given again, so its birth is looked at
/// where the file system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

/// Folders of which the files with one extension are followed, and what lies beside them.
pub(crate) struct Folders {
    folders: Vec<PathBuf>,
    extension: &'static str,
    /// How often a look is due although no change was told.
    poll: Duration,
    /// What lay there at the last look.
    found: BTreeMap<PathBuf, Stamp>,
    told: mpsc::Receiver<()>,
    watcher: Option<RecommendedWatcher>,
    /// What the watcher follows: of what was replaced, it must be told.
    watched: BTreeMap<PathBuf, Identity>,
    last_look: Instant,
    /// What was told of since then. Kept here, so that it outlives the future that waits for its end.
    settling: Option<Settling>,
}

/// A burst of changes, of which the end is waited for.
#[derive(Clone, Copy)]
struct Settling {
    /// When it has ended, if nothing more changes.
    quiet: Instant,
    /// How long it may go on.
    latest: Instant,
}

/// What a look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// The files that are there.
    pub(crate) found: BTreeMap<PathBuf, Stamp>,
    /// The folders that could not be read, and why. What lay in them counts as found as it was.
    pub(crate) unreadable: BTreeMap<PathBuf, String>,
}

impl Folders {
    /// Follows these; a path that is no folder is followed as the file that it is.
    pub(crate) fn new(folders: Vec<PathBuf>, extension: &'static str) -> Self {
        let (sender, told) = mpsc::channel(1);
        let tell = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(
                |event| !matches!(event.kind, notify::EventKind::Access(access) if !is_end(access)),
            ) {
                // One waiting note is as good as many.
                let _ = sender.try_send(());
            }
        };
        let watcher = match notify::recommended_watcher(tell) {
            Ok(watcher) => Some(watcher),
            Err(error) if !folders.is_empty() => {
                tracing::warn!(%error, "the system does not tell of changed files: they are looked for every {} s", LOOK.as_secs());
                None
            }
            Err(_) => None,
        };
        let (found, watched) = (BTreeMap::new(), BTreeMap::new());
        Self {
            folders,
            extension,
            poll: LOOK,
            found,
            told,
            watcher,
            watched,
            last_look: Instant::now(),
            settling: None,
        }
    }

    /// Waits until something may have changed. Safe to drop and call again.
    pub(crate) async fn changed(&mut self) {
        if self.folders.is_empty() {
            return std::future::pending().await;
        }
        loop {
            let due = self
                .settling
                .map_or(self.last_look + self.poll, |settling| {
                    settling.quiet.min(settling.latest)
                });
            match timeout_at(due, self.told.recv()).await {
                Ok(Some(())) => {
                    let now = Instant::now();
                    let latest = self
                        .settling
                        .map_or(now + BURST, |settling| settling.latest);
                    self.settling = Some(Settling {
                        quiet: now + QUIET,
                        latest,
                    });
                }
                // There is no watcher.
                Ok(None) => return sleep_until(due).await,
                Err(_) => return,
            }
        }
    }

    /// Looks what lies there now, off the async threads. None if the look panicked, which would be a fault of ours.
    pub(crate) async fn look_async(mut self) -> Option<(Self, Look)> {
        let look = move || {
            let look = self.look();
            (self, look)
        };
        tokio::task::spawn_blocking(look).await.ok()
    }

    /// Looks what lies there now. Blocks.
    fn look(&mut self) -> Look {
        self.last_look = Instant::now();
        self.settling = None;
        // What comes while the folder that it lies in begins to be watched is seen by the second.
        self.watch();
        self.watch();
        let mut look = Look::default();
        for folder in &self.folders {
            match read(folder, self.extension) {
                Ok(found) => look.found.extend(found),
                Err(error) => {
                    // A folder that is away says nothing of its files: what lay there goes on.
                    let kept = self
                        .found
                        .iter()
                        .filter(|(path, _)| path.starts_with(folder));
                    look.found
                        .extend(kept.map(|(path, stamp)| (path.clone(), *stamp)));
                    look.unreadable.insert(folder.clone(), error.to_string());
                }
            }
        }
        self.found.clone_from(&look.found);
        look
    }

    /// Has the system tell of changes in each folder; and, while one is away or is a link that may be led elsewhere, in the one
    /// that it lies in. No others, for much else may be written there.
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
            let is_settled =
                std::fs::symlink_metadata(folder).is_ok_and(|metadata| !metadata.is_symlink());
            if !is_settled && let Some(parent) = folder.parent() {
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

    /// A stamp for tests: other numbers are other contents.
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

    /// How long to wait before the content is read: it may still be written.
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

/// The end of a writer's access tells that a file is whole; reading tells nothing.
fn is_end(access: notify::event::AccessKind) -> bool {
    matches!(
        access,
        notify::event::AccessKind::Close(notify::event::AccessMode::Write)
    )
}

/// The files of a folder, links followed; the file itself, if it is one.
fn read(path: &Path, extension: &str) -> io::Result<Vec<(PathBuf, Stamp)>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_dir() {
        return Ok(vec![(path.to_owned(), Stamp::of(&metadata))]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        // Hidden files are those that others write before they rename them, and a mounted ConfigMap's own.
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden || path.extension().is_none_or(|found| found != extension) {
            continue;
        }
        // One that vanished meanwhile, or a link into nothing, is not there. A device is found, so that its error is reported.
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

    fn names(look: &Look) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        look.found.keys().map(name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_told_of_is_not_forgotten_when_a_wait_is_dropped() {
        let home = tempfile::tempdir().unwrap();
        let mut folders = Folders::new(vec![home.path().to_owned()], "wasm");
        let (sender, told) = mpsc::channel(1);
        folders.told = told;
        folders.look();
        let begun = Instant::now();
        sender.try_send(()).unwrap();
        while tokio::time::timeout(QUIET / 5, folders.changed())
            .await
            .is_err()
        {}
        assert!(
            (QUIET..BURST).contains(&begun.elapsed()),
            "{:?}",
            begun.elapsed()
        );
        folders.look();
        let begun = Instant::now();
        folders.changed().await;
        assert_eq!(begun.elapsed(), LOOK);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_watcher_it_is_looked_now_and_then() {
        let home = tempfile::tempdir().unwrap();
        let mut folders = Folders::new(vec![home.path().to_owned()], "wasm");
        folders.told = mpsc::channel(1).1;
        folders.look();
        let begun = Instant::now();
        folders.changed().await;
        assert_eq!(begun.elapsed(), LOOK);
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
        assert_eq!(names(&folders.look()), ["a.wasm", "b.wasm"]);
    }

    #[test]
    fn a_swapped_link_is_another_content() {
        let home = tempfile::tempdir().unwrap();
        for version in ["..1", "..2"] {
            std::fs::create_dir(home.path().join(version)).unwrap();
            std::fs::write(home.path().join(version).join("a.wasm"), version).unwrap();
        }
        symlink("..1", home.path().join("..data")).unwrap();
        symlink("..data/a.wasm", home.path().join("a.wasm")).unwrap();
        let mut folders = Folders::new(vec![home.path().to_owned()], "wasm");
        let before = folders.look().found;
        symlink("..2", home.path().join("..new")).unwrap();
        std::fs::rename(home.path().join("..new"), home.path().join("..data")).unwrap();
        let after = folders.look().found;
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>()
        );
        assert_ne!(before, after);
    }

    #[test]
    fn a_folder_that_is_away_says_nothing_of_its_files() {
        let home = tempfile::tempdir().unwrap();
        let plugins = home.path().join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::fs::write(plugins.join("a.wasm"), "").unwrap();
        let mut folders = Folders::new(vec![plugins.clone()], "wasm");
        assert_eq!(folders.look().found.len(), 1);
        std::fs::rename(&plugins, home.path().join("away")).unwrap();
        let look = folders.look();
        assert_eq!((look.found.len(), look.unreadable.len()), (1, 1));
        std::fs::create_dir(&plugins).unwrap();
        let look = folders.look();
        assert_eq!((look.found.len(), look.unreadable.len()), (0, 0));
    }

    #[test]
    fn what_lies_beside_a_folder_is_followed_only_where_it_may_become_the_folder() {
        let home = tempfile::tempdir().unwrap();
        let [plugins, link] = ["plugins", "link"].map(|name| home.path().join(name));
        let mut folders = Folders::new(vec![plugins.clone()], "wasm");
        let watched = |folders: &mut Folders| {
            folders.look();
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
    async fn changes_are_told_of_also_in_a_folder_that_came_back() {
        let home = tempfile::tempdir().unwrap();
        let plugins = home.path().join("plugins");
        let mut folders = Folders::new(vec![plugins.clone()], "wasm");
        // Only the watcher can end a wait.
        folders.poll = Duration::from_secs(24 * 60 * 60);
        assert!(folders.look().found.is_empty());
        for name in ["a.wasm", "b.wasm"] {
            std::fs::create_dir(&plugins).unwrap();
            next_look(&mut folders).await;
            std::fs::write(plugins.join(name), name).unwrap();
            while names(&next_look(&mut folders).await) != [name] {}
            std::fs::remove_dir_all(&plugins).unwrap();
            while next_look(&mut folders).await.unreadable.is_empty() {}
        }
    }

    /// Waits for a change and looks. The deadline is for a watcher that tells of nothing.
    async fn next_look(folders: &mut Folders) -> Look {
        let deadline = Duration::from_secs(60);
        let changed = tokio::time::timeout(deadline, folders.changed()).await;
        changed.expect("the watcher tells of the change");
        folders.look()
    }
}
