//! The binaries of a control plane: in a given folder, in the folder that `KUBEBUILDER_ASSETS` names, or in `PATH`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt};

use anyhow::{Context, bail};

/// The variable that names a folder of binaries, as in other test frameworks for Kubernetes.
const FOLDER_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// The binary of each part.
#[derive(Clone, Debug)]
pub struct Assets {
    etcd: Program,
    apiserver: Program,
    scheduler: Option<Program>,
    kcm: Kcm,
}

/// kube-controller-manager.
#[derive(Clone, Debug)]
enum Kcm {
    Missing,
    Found(Program),
    /// The function returns its path when it is first started.
    Later(fn() -> anyhow::Result<PathBuf>),
}

/// A binary, or one part of a binary with several parts.
#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    part: Option<&'static str>,
}

impl Assets {
    /// The binaries in the folder that `KUBEBUILDER_ASSETS` names; `None` if it is not set.
    pub fn named() -> anyhow::Result<Option<Self>> {
        let Some(folder) = named_folder() else {
            return Ok(None);
        };
        let path = env::var_os("PATH").unwrap_or_default();
        let assets = Self::in_folder(&folder, &path)
            .with_context(|| format!("can't use the binaries that {FOLDER_VARIABLE} names"))?;
        Ok(Some(assets))
    }

    /// The installed binaries: those in `folder` if one is given, or in the folder that `KUBEBUILDER_ASSETS` names, or
    /// in the folders of `PATH`. Builds nothing.
    pub fn installed(folder: Option<&Path>) -> anyhow::Result<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        if let Some(folder) = folder.map(Path::to_owned).or_else(named_folder) {
            return Self::in_folder(&folder, &path);
        }
        let find = |name: &str| Program::in_one_of(env::split_paths(&path), name);
        let need = |name: &str| {
            find(name).with_context(|| {
                format!("there is no {name} in PATH, and {FOLDER_VARIABLE} is not set")
            })
        };
        Ok(Self {
            etcd: need("etcd")?,
            apiserver: need("kube-apiserver")?,
            scheduler: find("kube-scheduler"),
            kcm: Kcm::found(find("kube-controller-manager")),
        })
    }

    /// The binaries in `folder`, which must have `etcd` and `kube-apiserver`. The scheduler may also be in one of the
    /// folders of `path`, a list in the format of `PATH`.
    pub fn in_folder(folder: &Path, path: &OsStr) -> anyhow::Result<Self> {
        let find = |name: &str| Program::in_one_of([folder.to_owned()], name);
        let need = |name: &str| {
            find(name).with_context(|| format!("there is no {name} in {}", folder.display()))
        };
        let in_path = |name: &str| Program::in_one_of(env::split_paths(path), name);
        Ok(Self {
            etcd: need("etcd")?,
            apiserver: need("kube-apiserver")?,
            scheduler: find("kube-scheduler").or_else(|| in_path("kube-scheduler")),
            kcm: Kcm::found(find("kube-controller-manager")),
        })
    }

    /// Whether kube-scheduler is available.
    pub fn has_scheduler(&self) -> bool {
        self.scheduler.is_some()
    }

    /// Whether kube-controller-manager is available, or can be built.
    pub fn has_kcm(&self) -> bool {
        !matches!(self.kcm, Kcm::Missing)
    }

    /// Returns the command that starts etcd, without its flags.
    pub fn etcd(&self) -> Command {
        self.etcd.command()
    }

    /// Returns the command that starts kube-apiserver, without its flags.
    pub fn apiserver(&self) -> Command {
        self.apiserver.command()
    }

    pub(crate) fn scheduler(&self) -> anyhow::Result<Command> {
        let scheduler = self.scheduler.as_ref();
        let scheduler = scheduler.with_context(|| missing("kube-scheduler"))?;
        Ok(scheduler.command())
    }

    /// Builds kube-controller-manager if that was put off until its first start. This blocks.
    pub fn prepare_kcm(&self) -> anyhow::Result<()> {
        match &self.kcm {
            Kcm::Later(path) => path().map(drop),
            Kcm::Missing | Kcm::Found(_) => Ok(()),
        }
    }

    /// Returns the command that starts kube-controller-manager. This blocks while it is built.
    pub(crate) fn kcm(&self) -> anyhow::Result<Command> {
        match &self.kcm {
            Kcm::Missing => bail!(missing("kube-controller-manager")),
            Kcm::Found(program) => Ok(program.command()),
            Kcm::Later(path) => Ok(Command::new(path()?)),
        }
    }

    /// The programs of one binary, which takes the name of a program as its first argument. `kcm` returns the path of
    /// kube-controller-manager when it is first started.
    pub fn in_one_binary(path: &Path, kcm: fn() -> anyhow::Result<PathBuf>) -> Self {
        let part = |name| Program {
            path: path.to_owned(),
            part: Some(name),
        };
        Self {
            etcd: part("etcd"),
            apiserver: part("kube-apiserver"),
            scheduler: Some(part("kube-scheduler")),
            kcm: Kcm::Later(kcm),
        }
    }
}

/// Names the binaries that always run.
impl fmt::Display for Assets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (etcd, apiserver) = (&self.etcd.path, &self.apiserver.path);
        write!(f, "{} and {}", etcd.display(), apiserver.display())
    }
}

/// The folder that `KUBEBUILDER_ASSETS` names, if it is set.
fn named_folder() -> Option<PathBuf> {
    let folder = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    folder.map(PathBuf::from)
}

impl Program {
    /// The binary of this name in the first of the folders that has it.
    fn in_one_of(folders: impl IntoIterator<Item = PathBuf>, name: &str) -> Option<Self> {
        let mut paths = folders.into_iter().map(|folder| folder.join(name));
        let path = paths.find(|path| path.is_file())?;
        Some(Self { path, part: None })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.part);
        command
    }
}

impl Kcm {
    fn found(program: Option<Program>) -> Self {
        program.map_or(Self::Missing, Self::Found)
    }
}

/// The error for a part that is not in the named folder.
fn missing(name: &str) -> String {
    format!(
        "can't start {name}: it is neither in the folder that {FOLDER_VARIABLE} names nor in PATH; add it to one of them"
    )
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_error_for_a_folder_without_etcd_names_etcd() {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("kube-apiserver")).unwrap();
        let error = Assets::in_folder(folder.path(), OsStr::new("")).unwrap_err();
        assert!(
            error.to_string().starts_with("there is no etcd in "),
            "{error}"
        );
    }

    #[test]
    fn a_folder_may_lack_the_controller_manager_and_take_the_scheduler_from_the_path() {
        let (folder, path) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for file in [
            folder.path().join("etcd"),
            folder.path().join("kube-apiserver"),
            path.path().join("kube-scheduler"),
        ] {
            File::create(file).unwrap();
        }
        let assets = Assets::in_folder(folder.path(), OsStr::new("")).unwrap();
        assert!(!assets.has_scheduler() && !assets.has_kcm());
        let assets = Assets::in_folder(folder.path(), path.path().as_os_str()).unwrap();
        assert!(assets.has_scheduler() && !assets.has_kcm());
        let error = assets.kcm().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("can't start kube-controller-manager: it is neither in the folder"),
            "{error}"
        );
    }
}
