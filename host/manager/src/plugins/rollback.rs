//! The versions of dropped-in plugins that ran: kept in a folder of the host's own, so that an operator can go back to the
//! one before, also after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::policy::grant::Asks;

/// The file that says what ran.
const RECORD: &str = "versions.json";

/// What is known of the versions of each plugin, by name.
pub(crate) struct Versions {
    store: Store,
    record: BTreeMap<String, History>,
}

/// The folder that holds the bytes of versions, by digest.
#[derive(Clone)]
pub(crate) struct Store {
    folder: Option<PathBuf>,
}

/// The versions of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    /// The digest of the version that runs, or ran last.
    pub(crate) current: String,
    /// That of the one before.
    #[serde(default)]
    pub(crate) previous: Option<String>,
    /// Which version runs in place of that of the file.
    #[serde(default)]
    pub(crate) pin: Option<Pin>,
    /// What the current version asks for.
    #[serde(default)]
    pub(crate) asks: Asks,
}

/// A version that the operator went back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    /// The digest of the version that runs.
    pub(crate) runs: String,
    /// For as long as this is the digest of the file.
    pub(crate) instead_of: String,
}

/// Why an operator can't go back to the version before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RollbackError {
    #[error("no version of the plugin `{0}` ran before the one that runs")]
    NoVersionBefore(String),
    #[error("versions are not kept: start the host with --state-dir")]
    NotKept,
    #[error("the version before of the plugin `{0}` can't be read any more: {1}")]
    Lost(String, String),
}

impl Store {
    /// Keeps a file's bytes, in case that it becomes the version before.
    pub(crate) fn keep(&self, digest: &str, wasm: &[u8]) {
        let Some(folder) = &self.folder else { return };
        let path = folder.join(format!("{digest}.wasm"));
        if !path.exists()
            && let Err(error) = write(&path, wasm)
        {
            tracing::warn!(%error, "this version of the plugin can't be kept, so that there will be no way back to it");
        }
    }

    /// The bytes of a version that was kept.
    pub(crate) fn read(&self, digest: &str) -> io::Result<Vec<u8>> {
        let folder = self
            .folder
            .as_ref()
            .ok_or_else(|| io::Error::other("versions are not kept"))?;
        let wasm = fs::read(folder.join(format!("{digest}.wasm")))?;
        if flyball_plugin::digest(&wasm) != digest {
            return Err(io::Error::other("it is not what was written"));
        }
        Ok(wasm)
    }
}

impl Versions {
    /// What is known in this folder, which is made if it isn't there; nothing is kept without one.
    ///
    /// # Errors
    /// The folder can't be made or read, or what lies there is not what was written.
    pub(crate) fn open(folder: Option<PathBuf>) -> io::Result<Self> {
        let Some(folder) = folder else {
            return Ok(Self {
                store: Store { folder: None },
                record: BTreeMap::new(),
            });
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let record = match fs::read(folder.join(RECORD)) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            store: Store {
                folder: Some(folder),
            },
            record,
        })
    }

    /// What is known of a plugin.
    pub(crate) fn of(&self, name: &str) -> Option<&History> {
        self.record.get(name)
    }

    /// The version that runs in place of the file's, if the operator went back to it.
    pub(crate) fn pinned(&self, name: &str, file: &str) -> Option<&str> {
        let pin = self.record.get(name)?.pin.as_ref()?;
        (pin.instead_of == file).then_some(pin.runs.as_str())
    }

    /// Where the bytes of versions lie.
    pub(crate) fn store(&self) -> Store {
        self.store.clone()
    }

    /// This version of a plugin runs now, from a file of the digest `file`.
    pub(crate) fn runs(&mut self, name: &str, digest: &str, file: &str, asks: Asks) {
        let history = self.record.entry(name.to_owned()).or_default();
        let before = history.clone();
        if history.current != digest {
            history.previous = Some(std::mem::replace(&mut history.current, digest.to_owned()))
                .filter(|d| !d.is_empty());
        }
        history.asks = asks;
        if history
            .pin
            .as_ref()
            .is_some_and(|pin| pin.instead_of != file)
        {
            history.pin = None;
        }
        if *history != before {
            self.write();
        }
    }

    /// From now on the version before runs in place of this file's; answers its digest.
    pub(crate) fn roll_back(&mut self, name: &str, file: &str) -> Result<String, RollbackError> {
        if self.store.folder.is_none() {
            return Err(RollbackError::NotKept);
        }
        let none = || RollbackError::NoVersionBefore(name.to_owned());
        let previous = self
            .record
            .get(name)
            .and_then(|history| history.previous.clone())
            .ok_or_else(none)?;
        self.store
            .read(&previous)
            .map_err(|error| RollbackError::Lost(name.to_owned(), error.to_string()))?;
        let history = self.record.get_mut(name).ok_or_else(none)?;
        history.pin = (previous != file).then(|| Pin {
            runs: previous.clone(),
            instead_of: file.to_owned(),
        });
        self.write();
        Ok(previous)
    }

    /// Writes what is known, and removes versions that nobody can go back to; `in_use` are the digests of files.
    pub(crate) fn tidy(&self, in_use: &BTreeSet<String>) {
        let Some(folder) = &self.store.folder else {
            return;
        };
        let known = self.record.values().flat_map(|history| {
            let pinned = history.pin.as_ref().map(|pin| &pin.runs);
            std::iter::once(&history.current)
                .chain(&history.previous)
                .chain(pinned)
        });
        let keep: BTreeSet<&String> = known.chain(in_use).collect();
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let is_version = path
                .extension()
                .is_some_and(|extension| extension == "wasm");
            let digest = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default();
            if is_version && !keep.contains(&digest) {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn write(&self) {
        let Some(folder) = &self.store.folder else {
            return;
        };
        let written = serde_json::to_vec_pretty(&self.record)
            .map_err(io::Error::other)
            .and_then(|text| write(&folder.join(RECORD), &text));
        if let Err(error) = written {
            tracing::warn!(%error, folder = %folder.display(), "the versions of plugins can't be written down");
        }
    }
}

/// Writes a file so that it is there whole or not at all.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use flyball_plugin::digest;

    use super::*;

    fn open(home: &tempfile::TempDir) -> Versions {
        Versions::open(Some(home.path().join("state"))).unwrap()
    }

    #[test]
    fn one_goes_back_and_stays_there_until_the_file_changes() {
        let home = tempfile::tempdir().unwrap();
        let (first, second, third) = (digest(b"1"), digest(b"2"), digest(b"3"));
        let mut versions = open(&home);
        for (digest, wasm) in [(&first, b"1"), (&second, b"2")] {
            versions.store().keep(digest, wasm);
            versions.runs("a", digest, digest, Asks::default());
        }
        assert_eq!(versions.roll_back("a", &second), Ok(first.clone()));
        versions.runs("a", &first, &second, Asks::default());
        let mut again = open(&home);
        assert_eq!(again.pinned("a", &second), Some(first.as_str()));
        assert_eq!(again.store().read(&first).unwrap(), b"1");
        assert_eq!(again.pinned("a", &third), None);
        again.runs("a", &third, &third, Asks::default());
        assert_eq!(open(&home).of("a").unwrap().pin, None);
    }

    #[test]
    fn going_back_twice_returns_to_the_file() {
        let home = tempfile::tempdir().unwrap();
        let (first, second) = (digest(b"1"), digest(b"2"));
        let mut versions = open(&home);
        for (digest, wasm) in [(&first, b"1"), (&second, b"2")] {
            versions.store().keep(digest, wasm);
            versions.runs("a", digest, digest, Asks::default());
        }
        versions.roll_back("a", &second).unwrap();
        versions.runs("a", &first, &second, Asks::default());
        assert_eq!(versions.roll_back("a", &second), Ok(second.clone()));
        assert_eq!(versions.pinned("a", &second), None);
    }

    #[test]
    fn there_is_no_way_back_without_a_version_before() {
        let home = tempfile::tempdir().unwrap();
        let mut versions = open(&home);
        assert!(matches!(
            versions.roll_back("a", "1"),
            Err(RollbackError::NoVersionBefore(_))
        ));
        let only = digest(b"1");
        versions.store().keep(&only, b"1");
        versions.runs("a", &only, &only, Asks::default());
        assert!(versions.roll_back("a", &only).is_err());
        let next = digest(b"2");
        versions.runs("a", &next, &next, Asks::default());
        fs::write(
            home.path().join("state").join(format!("{only}.wasm")),
            b"changed",
        )
        .unwrap();
        assert!(matches!(
            versions.roll_back("a", &next),
            Err(RollbackError::Lost(..))
        ));
        assert_eq!(
            Versions::open(None).unwrap().roll_back("a", "1"),
            Err(RollbackError::NotKept)
        );
    }

    #[test]
    fn versions_that_nobody_can_go_back_to_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let mut versions = open(&home);
        let digests: Vec<String> = [b"1", b"2", b"3", b"4"]
            .iter()
            .map(|wasm| digest(&wasm[..]))
            .collect();
        for (digest, wasm) in digests.iter().zip([b"1", b"2", b"3", b"4"]) {
            versions.store().keep(digest, wasm);
            versions.runs("a", digest, digest, Asks::default());
        }
        versions.tidy(&BTreeSet::from([digests[0].clone()]));
        let kept: Vec<bool> = digests
            .iter()
            .map(|digest| versions.store().read(digest).is_ok())
            .collect();
        assert_eq!(kept, [true, false, true, true]);
    }
}
