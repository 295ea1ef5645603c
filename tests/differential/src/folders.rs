//! The folders of scenarios and goldens.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flyball_controlplane::Release;

/// The folder of the built-in controllers. Each has its scenarios and goldens in its own folder.
pub fn controllers() -> PathBuf {
    own().join("../../guests/controllers")
}

/// The folder of this crate's goldens: those of planes' metrics.
pub(crate) fn all() -> PathBuf {
    own().join("goldens")
}

/// A file that stock has written, such as a golden. An earlier release of Kubernetes has a file of its own where stock
/// differs from the current release, and shares the others.
pub(crate) struct Written {
    /// The file of the current release.
    current: PathBuf,
    /// The file of the chosen release, if that is an earlier one.
    former: Option<PathBuf>,
}

impl Written {
    /// The file of this name in a folder: below `NAME` for the current release, and below `NAME-1.36` for 1.36.
    ///
    /// # Errors
    /// There is no control plane of the release that the environment chooses.
    pub(crate) fn in_folder(parent: &Path, name: &str, file: &str) -> Result<Self> {
        let of_release = |release| parent.join(format!("{name}-{release}")).join(file);
        Self::new(parent.join(name).join(file), of_release)
    }

    /// The file `NAME.json` of a folder for the current release, and `NAME-1.36.json` for 1.36.
    ///
    /// # Errors
    /// As [`in_folder`](Self::in_folder).
    pub(crate) fn beside(parent: &Path, name: &str) -> Result<Self> {
        let of_release = |release| parent.join(format!("{name}-{release}.json"));
        Self::new(parent.join(format!("{name}.json")), of_release)
    }

    fn new(current: PathBuf, former: impl FnOnce(&'static str) -> PathBuf) -> Result<Self> {
        let release = Release::chosen()?;
        Ok(Self {
            current,
            former: (!release.is_current()).then(|| former(release.name)),
        })
    }

    /// The file that the chosen release reads.
    pub(crate) fn to_read(&self) -> &Path {
        let own = self.former.as_deref().filter(|former| former.exists());
        own.unwrap_or(&self.current)
    }

    /// Writes what stock of the chosen release wrote. `is_same` decides, given the text of the current release's file,
    /// whether an earlier release can share that one.
    ///
    /// # Errors
    /// A file can't be read or written.
    pub(crate) fn write(&self, text: &str, is_same: impl FnOnce(&[u8]) -> bool) -> Result<()> {
        let path = self.former.as_ref().unwrap_or(&self.current);
        if self.former.is_some() && fs::read(&self.current).is_ok_and(|current| is_same(&current)) {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("can't remove {}", path.display()))
                }
                _ => Ok(()),
            };
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("can't create {}", folder.display()))?;
        }
        fs::write(path, text).with_context(|| format!("can't write {}", path.display()))
    }
}

fn own() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_release_has_a_file_only_where_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let written = |former: Option<&str>| Written {
            current: folder.path().join("goldens/a.json"),
            former: former.map(|name| folder.path().join(name).join("a.json")),
        };
        let (current, former) = (written(None), written(Some("goldens-1.36")));
        current
            .write("new", |_| {
                unreachable!("the current release shares nothing")
            })
            .unwrap();
        let read = |written: &Written| fs::read_to_string(written.to_read()).unwrap();
        assert_eq!(read(&former), "new");
        former.write("old", |current| current == b"old").unwrap();
        assert_eq!(
            (read(&current), read(&former)),
            ("new".into(), "old".into())
        );
        former.write("new", |current| current == b"new").unwrap();
        assert_eq!(former.to_read(), current.to_read());
        former.write("new", |current| current == b"new").unwrap();
    }
}
