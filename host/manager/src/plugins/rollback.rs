//! Stores the versions of dropped-in plugins that ran, so that an operator can roll back to the previous one, even
//! after a restart. The [`Record`] says which versions ran, and a [`VersionFolder`] of the host has the bytes of their
//! files. [`VersionStore`] writes both to disk on a blocking thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flyball_files::{OthersMay, PrivateFolder};
use flyball_policy::grant::{Asks, PluginFile};
use flyball_types::printable;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::plugins::load::Origin;

/// The file that the record is written to.
const RECORD: &str = "versions.json";
/// The file with the canaries of a host without a lease.
const CANARIES: &str = "canaries.json";
/// The largest file of canaries in bytes.
const MAX_CANARIES: usize = 1024 * 1024;
/// The number of versions before the previous one that are kept for a rollback to a version that the operator names.
const KEPT_EARLIER: usize = 3;
/// The shortest part of a digest that names a version.
const SHORTEST_DIGEST: usize = 6;
/// The largest record in bytes. A thousand plugins with long lists of permissions need less.
const MAX_RECORD: usize = 64 * 1024 * 1024;

/// The versions of each plugin that ran, by the plugin's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Record(BTreeMap<String, PluginVersions>);

/// The versions of a plugin that ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PluginVersions {
    /// The digest of the version that runs, or ran last.
    pub(crate) current: String,
    /// The digest of the previous version.
    #[serde(default)]
    pub(crate) previous: Option<String>,
    /// The digests of the versions before that, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<String>,
    /// The versions' own names, as in `1.0.0`, by digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    names: BTreeMap<String, String>,
    /// The version that runs instead of the file's version.
    #[serde(default)]
    pub(crate) pin: Option<Pin>,
    /// The permissions that the current version asks for.
    #[serde(default)]
    pub(crate) asks: Asks,
    /// The addresses of the packages that versions ran from, by digest. Other versions ran from files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    packages: BTreeMap<String, String>,
}

/// A version that the operator rolled back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    /// The digest of the version that runs.
    pub(crate) runs: String,
    /// The rollback ends when the file's digest differs from this one.
    pub(crate) instead_of: String,
}

/// The version that an operator rolls back to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RollbackTo {
    /// The version that ran before the file's. If that runs already, it goes on.
    #[default]
    Previous,
    /// The version with this name, as in `1.0.0`, or with this digest or beginning of a digest.
    Version(String),
    /// The version of the file: this ends a rollback.
    File,
}

/// The reason why an operator can't roll back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RollbackError {
    #[error("can't roll back the plugin `{0}`: no other version of it has run")]
    NoVersionBefore(String),
    #[error("can't roll back the plugin `{name}` to `{asked}`: {why}; kept are {kept}")]
    NoSuchVersion {
        name: String,
        asked: String,
        why: &'static str,
        kept: String,
    },
    #[error(
        "can't roll back the plugin `{name}`: its policy applies only to {granted}, and the version before is {found}; change \
         the policy first"
    )]
    OtherFile {
        name: String,
        granted: String,
        found: String,
    },
    #[error("can't roll back: versions are not kept; start the host with --state-dir")]
    NotKept,
    #[error("can't roll back the plugin `{0}`: the version before can't be read any more: {1}")]
    Lost(String, String),
}

impl Record {
    /// The versions of a plugin.
    pub(crate) fn of(&self, name: &str) -> Option<&PluginVersions> {
        self.0.get(name)
    }

    pub(crate) fn set(&mut self, name: &str, versions: PluginVersions) {
        self.0.insert(name.to_owned(), versions);
    }

    /// The digest of the version that runs instead of the file's version, if the operator rolled back to it.
    pub(crate) fn pinned(&self, name: &str, file: &str) -> Option<&str> {
        let pin = self.0.get(name)?.pin.as_ref()?;
        (pin.instead_of == file).then_some(pin.runs.as_str())
    }

    /// The versions of a plugin after the version `runs` started. It runs as the file with the digest `file`, or
    /// instead of it.
    pub(crate) fn after(
        &self,
        name: &str,
        runs: PluginFile<'_>,
        version: &str,
        file: &str,
        asks: Asks,
    ) -> PluginVersions {
        let mut versions = self.0.get(name).cloned().unwrap_or_default();
        if versions.current != runs.digest {
            let before = std::mem::replace(&mut versions.current, runs.digest.to_owned());
            let others = [Some(before), versions.previous.take()];
            let others = others.into_iter().flatten().chain(versions.earlier);
            let mut others = others.filter(|digest| !digest.is_empty() && digest != runs.digest);
            versions.previous = others.next();
            versions.earlier = others.take(KEPT_EARLIER).collect();
        }
        versions
            .names
            .insert(runs.digest.to_owned(), version.to_owned());
        versions.asks = asks;
        versions.pin = versions.pin.filter(|pin| pin.instead_of == file);
        versions.packages.remove(runs.digest);
        if let Some(package) = runs.package {
            let package = package.to_owned();
            versions.packages.insert(runs.digest.to_owned(), package);
        }
        let kept: BTreeSet<String> = versions.digests().map(str::to_owned).collect();
        versions.packages.retain(|digest, _| kept.contains(digest));
        versions.names.retain(|digest, _| kept.contains(digest));
        versions
    }

    /// The data of a version that ran, for a check against a policy.
    pub(crate) fn version<'a>(&'a self, name: &str, digest: &'a str) -> PluginFile<'a> {
        let packages = self.0.get(name).map(|own| &own.packages);
        let package = packages.and_then(|packages| packages.get(digest));
        PluginFile {
            digest,
            package: package.map(String::as_str),
            name: None,
        }
    }

    /// The origin of a version. For a file, it is the origin of the plugin that the version replaces.
    pub(crate) fn origin(&self, name: &str, digest: &str, instead_of: &Origin) -> Origin {
        match (self.version(name, digest).package, instead_of) {
            (Some(package), _) => Origin::Package(package.to_owned()),
            (None, Origin::File(path)) => Origin::File(path.clone()),
            (None, _) => Origin::File(format!("sha256:{digest}").into()),
        }
    }

    /// The digest of the version that a rollback leads to. `file` is the digest of the plugin's file.
    pub(crate) fn target<'a>(
        &'a self,
        name: &str,
        file: &'a str,
        to: &RollbackTo,
    ) -> Result<&'a str, RollbackError> {
        let none = || RollbackError::NoVersionBefore(name.to_owned());
        let versions = self.0.get(name);
        match to {
            RollbackTo::File => Ok(file),
            RollbackTo::Version(asked) => versions.ok_or_else(none)?.named(name, file, asked),
            RollbackTo::Previous => {
                let versions = versions.ok_or_else(none)?;
                // A second rollback must not lead back to the version that the first one left, although the file has
                // changed since then and its version waits.
                let runs_already = Some(versions.current.as_str())
                    .filter(|current| !current.is_empty() && *current != file);
                let pinned = self.pinned(name, file);
                let before = pinned.or(runs_already).or(versions.previous.as_deref());
                before.ok_or_else(none)
            }
        }
    }

    /// A version in words: its name, if that is known, and its digest.
    pub(crate) fn words(&self, name: &str, digest: &str) -> String {
        let versions = self.0.get(name);
        versions.map_or_else(|| format!("sha256:{digest}"), |own| own.words(digest))
    }

    /// Records that the version `runs` takes the place of the file's.
    pub(crate) fn pin(&mut self, name: &str, runs: &str, file: &str) {
        if let Some(versions) = self.0.get_mut(name) {
            versions.pin = (runs != file).then(|| Pin {
                runs: runs.to_owned(),
                instead_of: file.to_owned(),
            });
        }
    }

    /// The digests of all versions that run or that one can roll back to.
    fn digests(&self) -> impl Iterator<Item = &str> {
        self.0.values().flat_map(PluginVersions::digests)
    }
}

impl PluginVersions {
    /// The digests of the versions that run or that one can roll back to.
    fn digests(&self) -> impl Iterator<Item = &str> {
        let pinned = self.pin.as_ref().map(|pin| &pin.runs);
        let digests = std::iter::once(&self.current).chain(&self.previous);
        let digests = digests.chain(&self.earlier);
        digests.chain(pinned).map(String::as_str)
    }

    /// Returns the digests of the versions before the current one, the latest first, each with its own name and the
    /// address of its package, if it has them.
    pub(crate) fn before(&self) -> impl Iterator<Item = (&str, Option<&str>, Option<&str>)> {
        let digests = self.previous.iter().chain(&self.earlier);
        digests.map(|digest| {
            let name = self.names.get(digest).map(String::as_str);
            let package = self.packages.get(digest).map(String::as_str);
            (digest.as_str(), name, package)
        })
    }

    /// A version in words: its name, if that is known, and its digest.
    fn words(&self, digest: &str) -> String {
        match self.names.get(digest) {
            Some(named) => format!("{} (sha256:{digest})", printable(named)),
            None => format!("sha256:{digest}"),
        }
    }

    /// The version that the operator names by its own name, or by the beginning of its digest.
    fn named<'a>(
        &'a self,
        plugin: &str,
        file: &'a str,
        asked: &str,
    ) -> Result<&'a str, RollbackError> {
        let digest = asked.strip_prefix("sha256:").unwrap_or(asked);
        let is_digest = digest.len() >= SHORTEST_DIGEST;
        let all: BTreeSet<&str> = self.digests().chain([file]).collect();
        let is_asked = |known: &&str| {
            is_digest && known.starts_with(digest)
                || self.names.get(*known).is_some_and(|named| named == asked)
        };
        let found: Vec<&str> = all.iter().copied().filter(is_asked).collect();
        let why = match found.as_slice() {
            [one] => return Ok(one),
            [] => "no such version is kept",
            _ => "several versions match: name one by its digest",
        };
        let kept = all.iter().map(|digest| self.words(digest));
        Err(RollbackError::NoSuchVersion {
            name: plugin.to_owned(),
            asked: printable(asked),
            why,
            kept: kept.collect::<Vec<_>>().join(", "),
        })
    }
}

/// The folder with the record and the bytes of versions. No other user may write to it, because the record says what
/// was granted. All of its functions block.
#[derive(Clone, Debug)]
pub(crate) struct VersionFolder {
    folder: Arc<PrivateFolder>,
    /// The size of the largest version in bytes.
    max_version: usize,
}

impl VersionFolder {
    /// Opens a folder and reads its record. Creates the folder if it does not exist.
    ///
    /// # Errors
    /// The folder can't be created or read, other users may write to it or to the record, or the record is not valid.
    pub(crate) fn open(folder: &Path, max_version: usize) -> io::Result<(Self, Record)> {
        let folder = PrivateFolder::open(folder, OthersMay::Read)?;
        let record = match folder.read(RECORD, MAX_RECORD) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Record::default(),
            Err(error) => return Err(error),
        };
        let folder = Self {
            folder: Arc::new(folder),
            max_version,
        };
        Ok((folder, record))
    }

    /// Reads the stored canaries; none if there are none.
    pub(crate) fn canaries(&self) -> io::Result<Option<String>> {
        match self.folder.read(CANARIES, MAX_CANARIES) {
            Ok(text) => String::from_utf8(text).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores a copy of a file, for a later rollback to it.
    fn keep(&self, digest: &str, path: &Path) -> io::Result<()> {
        if self.folder.file(&name(digest)).is_ok() {
            return Ok(());
        }
        let wasm = flyball_files::read(path, self.max_version)?;
        check(digest, &wasm)?;
        self.write_whole(&name(digest), &wasm)
    }

    /// Reads the bytes of a version.
    pub(crate) fn read(&self, digest: &str) -> io::Result<Bytes> {
        let wasm = self.folder.read(&name(digest), self.max_version)?;
        check(digest, &wasm)?;
        Ok(wasm.into())
    }

    /// Writes the record, and removes versions that no rollback can use. `in_use` are the digests of loaded files.
    fn write(&self, record: &Record, in_use: &BTreeSet<String>) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::other)?;
        self.write_whole(RECORD, &text)?;
        let mut keep: BTreeSet<String> = record.digests().map(name).collect();
        keep.extend(in_use.iter().map(|digest| name(digest)));
        for entry in self.folder.entries()? {
            let is_version = Path::new(&entry.name)
                .extension()
                .is_some_and(|found| found == "wasm");
            if is_version && !keep.contains(&*entry.name.to_string_lossy()) {
                self.folder.remove(&entry.name)?;
            }
        }
        Ok(())
    }

    fn write_whole(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.folder.write(name, |file| {
            file.write_all(content)?;
            file.sync_all()
        })
    }
}

/// Fails if these are not the bytes of a version with this digest.
fn check(digest: &str, wasm: &[u8]) -> io::Result<()> {
    if flyball_plugin::digest(wasm) == digest {
        return Ok(());
    }
    Err(io::Error::other(
        "the file has changed since it was written",
    ))
}

/// The name of a version's file.
fn name(digest: &str) -> String {
    format!("{digest}.wasm")
}

/// Stores versions and their record in a folder. One task handles all requests in order, so that a version that is
/// stored before the record that names it is not removed.
pub(crate) struct VersionStore {
    /// None if versions are not stored.
    folder: Option<VersionFolder>,
    jobs: mpsc::UnboundedSender<Job>,
    task: JoinHandle<()>,
}

/// A stored version that is yet to be read.
#[derive(Clone, Debug)]
pub(crate) struct KeptVersion {
    /// None if versions are not stored.
    folder: Option<VersionFolder>,
    digest: String,
}

/// Called with the text that is stored; none if there is none.
type OnStored = Box<dyn FnOnce(Option<&str>) + Send>;

enum Job {
    Keep(String, PathBuf),
    Write(Record, BTreeSet<String>, Option<oneshot::Sender<()>>),
    Canaries(Option<String>, OnStored),
}

impl VersionStore {
    /// Must be called in a tokio runtime.
    pub(crate) fn start(folder: Option<VersionFolder>) -> Self {
        let (jobs, mut queued) = mpsc::unbounded_channel::<Job>();
        let own = folder.clone();
        let task = tokio::spawn(async move {
            while let Some(job) = queued.recv().await {
                let folder = own.clone();
                // A panic would be a bug. It must not end the host.
                let _ = tokio::task::spawn_blocking(move || job.run(folder.as_ref())).await;
            }
        });
        Self { folder, jobs, task }
    }

    /// Stores a version that was loaded from this file. The file is read when it is its turn, so that versions that wait
    /// take no memory.
    pub(crate) fn keep(&self, digest: &str, path: PathBuf) {
        let _ = self.jobs.send(Job::Keep(digest.to_owned(), path));
    }

    /// `done` is notified or dropped when the record was written.
    pub(crate) fn write(
        &self,
        record: &Record,
        in_use: BTreeSet<String>,
        done: Option<oneshot::Sender<()>>,
    ) {
        let _ = self.jobs.send(Job::Write(record.clone(), in_use, done));
    }

    /// Writes the canaries, and then calls `done` with them.
    pub(crate) fn write_canaries(
        &self,
        text: Option<String>,
        done: impl FnOnce(Option<&str>) + Send + 'static,
    ) {
        let _ = self.jobs.send(Job::Canaries(text, Box::new(done)));
    }

    /// Returns a version, to be read later.
    pub(crate) fn version(&self, digest: &str) -> KeptVersion {
        KeptVersion {
            folder: self.folder.clone(),
            digest: digest.to_owned(),
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.folder.is_some()
    }

    /// Returns when all previous requests are on disk.
    pub(crate) async fn close(self) {
        drop(self.jobs);
        let _ = self.task.await;
    }
}

impl KeptVersion {
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Reads its bytes on a blocking thread, and checks its digest.
    pub(crate) async fn read(&self) -> io::Result<Bytes> {
        let folder = self.folder.clone();
        let folder = folder.ok_or_else(|| io::Error::other("versions are not kept"))?;
        let digest = self.digest.clone();
        let read = tokio::task::spawn_blocking(move || folder.read(&digest)).await;
        read.map_err(io::Error::other)?
    }
}

impl Job {
    /// Without a folder, nothing is stored.
    fn run(self, folder: Option<&VersionFolder>) {
        match (self, folder) {
            (Self::Keep(digest, path), Some(folder)) => {
                if let Err(error) = folder.keep(&digest, &path) {
                    tracing::warn!(%error, digest, folder = %folder.folder.path().display(), "can't keep this version of a plugin: there will be no rollback to it");
                }
            }
            (Self::Write(record, in_use, done), Some(folder)) => {
                if let Err(error) = folder.write(&record, &in_use) {
                    tracing::warn!(%error, folder = %folder.folder.path().display(), "can't write the record of versions of plugins");
                }
                if let Some(done) = done {
                    let _ = done.send(());
                }
            }
            (Self::Canaries(text, done), folder) => {
                let content = text.as_deref().unwrap_or("{}").as_bytes();
                let written = folder.map(|folder| (folder, folder.write_whole(CANARIES, content)));
                if let Some((folder, Err(error))) = written {
                    tracing::warn!(%error, folder = %folder.folder.path().display(), "can't write the state of canaries: it ends with the process");
                }
                done(text.as_deref());
            }
            (Self::Keep(..) | Self::Write(..), None) => {}
        }
    }
}

#[cfg(test)]
mod tests;
