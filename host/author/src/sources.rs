//! `flyball dev`: follows the sources of a project.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::Project;
use crate::ignored::is_ignored;

/// Files that builds write beside the sources.
const WRITTEN: [&str; 2] = ["Cargo.lock", "package-lock.json"];

/// The sources of a project: all files of its folder except for hidden ones and for outputs of builds, and those of the
/// folders outside that its manifest names.
pub struct SourceFiles {
    dir: PathBuf,
    /// The folders outside, which may hold the project's.
    further: Vec<PathBuf>,
    watcher: RecommendedWatcher,
    /// The watched folders. Folders of build outputs, which may hold tens of thousands of files, are not watched.
    watched: BTreeSet<PathBuf>,
    seen: BTreeMap<PathBuf, Stamp>,
}

/// The time of the last write, and the size.
type Stamp = (SystemTime, u64);

impl SourceFiles {
    /// Follows the sources of a project. `tell` is called on another thread, with the time, whenever they may have
    /// changed.
    ///
    /// # Errors
    /// The folder can't be read, or the system can't watch it.
    pub fn follow(project: &Project, tell: impl Fn(Instant) + Send + 'static) -> Result<Self> {
        let dir = project.dir.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error means that events may have been lost.
            if event.map_or(true, |event| is_change(event.kind)) {
                tell(Instant::now());
            }
        });
        let watcher = watcher.with_context(|| format!("can't watch {}", dir.display()))?;
        let further = project.language.support().further_sources(&dir);
        let mut sources = Self {
            dir,
            further,
            watcher,
            watched: BTreeSet::new(),
            seen: BTreeMap::new(),
        };
        sources.changed()?;
        Ok(sources)
    }

    /// Returns the files that were created, changed or deleted since the last call.
    pub fn changed(&mut self) -> Result<Vec<PathBuf>> {
        // Watched before it is read, so that no change is missed.
        self.watch(&self.dir.clone())
            .with_context(|| format!("can't watch {}", self.dir.display()))?;
        let mut found = BTreeMap::new();
        let mut folders = vec![self.dir.clone()];
        for folder in self.further.clone() {
            if self.watch(&folder).is_ok() {
                folders.push(folder);
            }
        }
        let own = self.dir.canonicalize().ok();
        while let Some(folder) = folders.pop() {
            // A file that vanishes meanwhile is reported as a change later.
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(metadata) = path.metadata() else {
                    continue;
                };
                if !is_source(&path) {
                    continue;
                }
                if !metadata.is_dir() {
                    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.insert(path, (modified, metadata.len()));
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir())
                    // The project's own folder has its turn, by another path.
                    && path.canonicalize().ok() != own
                    && self.watch(&path).is_ok()
                {
                    folders.push(path);
                }
            }
        }
        self.watched.retain(|folder| folder.is_dir());
        let old = std::mem::replace(&mut self.seen, found);
        let all: BTreeSet<&PathBuf> = old.keys().chain(self.seen.keys()).collect();
        let changed = all
            .into_iter()
            .filter(|path| old.get(*path) != self.seen.get(*path));
        Ok(changed.cloned().collect())
    }

    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        if !self.watched.contains(folder) {
            self.watcher.watch(folder, RecursiveMode::NonRecursive)?;
            self.watched.insert(folder.to_owned());
        }
        Ok(())
    }
}

/// Whether an event may be about a change. Compilers open and read files all the time.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// Whether a path in a project's folder names a source, or a folder of them.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_backup = name.ends_with('~');
    let is_component = path
        .extension()
        .is_some_and(|extension| extension == "wasm");
    !name.starts_with('.')
        && !is_backup
        && !is_component
        && !is_ignored(&name)
        && !WRITTEN.contains(&&*name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// How long a notification may take.
    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn the_project_that_a_plugin_was_imported_from_is_followed_too() {
        let folder = tempfile::tempdir().unwrap();
        let (web, plugin) = (folder.path().join("web"), folder.path().join("web/plugin"));
        fs::create_dir_all(web.join("internal")).unwrap();
        fs::create_dir_all(&plugin).unwrap();
        let module = "module example.com/web/plugin\n\nreplace (\n\texample.com/web => ../ // the project\n\tflyball.dev/sdk => ./flyball-sdk\n)\n";
        fs::write(plugin.join("go.mod"), module).unwrap();
        let project = Project::open(&plugin).unwrap();
        let mut sources = SourceFiles::follow(&project, |_| {}).unwrap();
        fs::write(web.join("internal/site.go"), "").unwrap();
        let changed = sources.changed().unwrap();
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert!(changed[0].ends_with("internal/site.go"), "{changed:?}");
        fs::write(plugin.join("main.go"), "").unwrap();
        assert_eq!(sources.changed().unwrap(), [plugin.join("main.go")]);
    }

    #[test]
    fn changed_sources_are_reported_and_what_builds_write_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        fs::write(dir.join("flyball.toml"), "name = \"a\"").unwrap();
        fs::create_dir(dir.join("src")).unwrap();
        let project = Project::open(dir).unwrap();
        let (sender, events) = mpsc::channel();
        let mut sources = SourceFiles::follow(&project, move |at| {
            let _ = sender.send(at);
        })
        .unwrap();
        assert_eq!(sources.changed().unwrap(), [] as [&Path; 0]);

        for path in ["build", "target/debug", "node_modules/x", ".git"] {
            fs::create_dir_all(dir.join(path)).unwrap();
            fs::write(dir.join(path).join("file"), "").unwrap();
        }
        for path in ["a.wasm", "Cargo.lock", ".swap", "src/main.c~"] {
            fs::write(dir.join(path), "").unwrap();
        }
        assert_eq!(sources.changed().unwrap(), [] as [&Path; 0]);

        // A new folder is followed, too.
        fs::create_dir(dir.join("src/more")).unwrap();
        fs::write(dir.join("src/main.c"), "").unwrap();
        assert_eq!(sources.changed().unwrap(), [dir.join("src/main.c")]);
        while events.try_recv().is_ok() {}
        fs::write(dir.join("src/more/b.c"), "").unwrap();
        events.recv_timeout(PATIENCE).unwrap();
        assert_eq!(sources.changed().unwrap(), [dir.join("src/more/b.c")]);
        fs::remove_file(dir.join("src/main.c")).unwrap();
        assert_eq!(sources.changed().unwrap(), [dir.join("src/main.c")]);
    }
}
