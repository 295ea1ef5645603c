//! Binaries that are built from Go modules in this crate: one of etcd, kube-apiserver and kube-scheduler, and, where it
//! is needed, one of kube-controller-manager; also the stock clients.
//!
//! The first build takes minutes. The binaries are kept in the workspace's target folder, with a digest of their
//! sources.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use anyhow::{Context, bail, ensure};
use flyball_devcluster::{Assets, process};
use sha2::{Digest, Sha256};

use crate::release::Release;

/// How often a long build reports that it is still running.
const PROGRESS: Duration = Duration::from_secs(15);

/// Returns the binaries in the folder that `KUBEBUILDER_ASSETS` names, if it is set. Otherwise returns the project's
/// own binary, which is built if it is missing or its sources have changed. The build needs Go, takes minutes and
/// prints its progress to standard error.
///
/// This blocks: in async code, call it through `spawn_blocking`.
///
/// # Errors
/// Fails if the named folder lacks etcd or kube-apiserver, or if the build fails.
pub fn find_or_build() -> anyhow::Result<Assets> {
    if let Some(assets) = Assets::named().context("unset the variable to build them")? {
        return Ok(assets);
    }
    let binary = CONTROL_PLANE.of_release(Release::chosen()?).build()?;
    Ok(Assets::in_one_binary(&binary, || {
        KUBE_CONTROLLER_MANAGER
            .of_release(Release::chosen()?)
            .build()
    }))
}

/// Like [`find_or_build`]; also builds kube-controller-manager, which is otherwise built when it is first started.
///
/// # Errors
/// As [`find_or_build`].
pub fn find_or_build_with_kcm() -> anyhow::Result<Assets> {
    let assets = find_or_build()?;
    assets.prepare_kcm()?;
    Ok(assets)
}

/// Returns kube-controller-manager of the release before the current one. This blocks while it is built.
///
/// # Errors
/// The build fails.
pub fn find_or_build_kcm_before() -> anyhow::Result<PathBuf> {
    KUBE_CONTROLLER_MANAGER
        .of_release(Release::before())
        .build()
}

/// Returns the stock cloud-controller-manager with the sample cloud as its only provider. It is built if it is missing or
/// its sources have changed.
///
/// This blocks, as [`find_or_build`] does.
///
/// # Errors
/// The build fails.
pub fn cloud_controller_manager() -> anyhow::Result<PathBuf> {
    CLOUD_CONTROLLER_MANAGER.build()
}

/// Returns the controllers that Kubernetes 1.38 adds, in a binary of their own. It is built if it is missing or its sources have
/// changed.
///
/// This blocks, as [`find_or_build`] does.
///
/// # Errors
/// The build fails.
pub fn eviction_controllers() -> anyhow::Result<PathBuf> {
    EVICTION_CONTROLLERS.build()
}

/// A binary that is built from a Go module of this crate.
pub(crate) struct GoBinary {
    /// The module's folder in this crate.
    pub(crate) folder: &'static str,
    /// The folder below the target folder that has the binary's own folder; empty for the target folder itself.
    pub(crate) below: &'static str,
    /// The name of the binary's folder, and of the file in it.
    pub(crate) name: &'static str,
    /// The programs in the binary, as messages name them.
    pub(crate) of: &'static str,
    /// The Go package of the command: `.`, or one of a module that `go.mod` names as a tool.
    pub(crate) package: &'static str,
    /// Go's build tags, separated by commas.
    pub(crate) tags: &'static str,
    /// The folders of the module, beside its own, that the package is built from.
    pub(crate) folders: &'static [&'static str],
    /// Whether the module needs a newer Go than those of the current release. Unless it is installed, Go downloads it.
    pub(crate) needs_newer_go: bool,
    /// Returns the linker's flags, given the module's folder.
    pub(crate) link: fn(&Path) -> anyhow::Result<String>,
}

const CONTROL_PLANE: GoBinary = GoBinary {
    folder: "go",
    below: "",
    name: "controlplane",
    of: "etcd, kube-apiserver and kube-scheduler",
    package: ".",
    tags: "",
    folders: &[],
    needs_newer_go: false,
    link: link_flags,
};

const KUBE_CONTROLLER_MANAGER: GoBinary = GoBinary {
    folder: "go",
    below: "",
    name: "kube-controller-manager",
    of: "kube-controller-manager",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    tags: "",
    folders: &[],
    needs_newer_go: false,
    link: link_flags,
};

const CLOUD_CONTROLLER_MANAGER: GoBinary = GoBinary {
    folder: "go",
    below: "",
    name: "cloud-controller-manager",
    of: "cloud-controller-manager",
    package: "./cloud-controller-manager",
    tags: "",
    folders: &["cloud-controller-manager", "samplecloud"],
    needs_newer_go: false,
    link: link_flags,
};

const EVICTION_CONTROLLERS: GoBinary = GoBinary {
    folder: "go-1.38",
    below: "kubernetes-1.38",
    name: "eviction-controllers",
    of: "the controllers that Kubernetes 1.38 adds",
    package: ".",
    tags: "",
    folders: &[],
    needs_newer_go: true,
    link: link_flags,
};

/// The compiler's flag for packages without debug information. The linker would strip it.
const NO_DEBUG_INFORMATION: &str = "all=-dwarf=false";
/// `GOGC` of the compiler: with the default of 100, it spends a fifth of its time on collecting garbage.
const COMPILER_GOGC: &str = "1000";
/// `GOMEMLIMIT` of the compiler: from this size of one of its processes on, it collects garbage as often as it needs
/// to.
const COMPILER_MEMORY: &str = "2GiB";
/// With at most this many cores, compiling several packages at the same time keeps all cores busy. Limiting each
/// compiler process to one thread then takes 6 % less CPU time.
const FEW_CORES: usize = 4;

impl GoBinary {
    /// The same binary of this release.
    fn of_release(&self, release: &'static Release) -> Self {
        Self {
            folder: release.folder,
            below: release.binaries,
            ..*self
        }
    }

    /// Like [`GoBinary::build`], for async code.
    pub(crate) async fn built(&'static self) -> anyhow::Result<PathBuf> {
        tokio::task::spawn_blocking(|| self.build())
            .await
            .context("the build was cancelled")?
    }

    /// Builds the binary unless it is up to date, and returns its path. This blocks.
    pub(crate) fn build(&self) -> anyhow::Result<PathBuf> {
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = crate_dir.join(self.folder);
        let out = target_dir(crate_dir).join(self.below).join(self.name);
        fs::create_dir_all(&out)
            .with_context(|| format!("can't create {} for the binary", out.display()))?;
        let (binary, stamp) = (out.join(self.name), out.join("stamp"));
        let link = (self.link)(&sources)?;
        let digest = digest(&sources, self.folders, &link)?;
        let fresh =
            || binary.is_file() && fs::read_to_string(&stamp).is_ok_and(|built| built == digest);
        if fresh() {
            return Ok(binary);
        }
        // Several test processes may need the binary: one builds it, and the others wait here.
        let _lock = File::create(out.join("lock"))
            .and_then(|file| lock(&file).map(|()| file))
            .with_context(|| format!("can't lock {}", out.display()))?;
        if fresh() {
            return Ok(binary);
        }
        let new = out.join(format!("{}.new", self.name));
        self.compile(&sources, &link, &new)?;
        fs::rename(&new, &binary).with_context(|| format!("can't replace {}", binary.display()))?;
        fs::write(&stamp, digest).with_context(|| format!("can't write {}", stamp.display()))?;
        Ok(binary)
    }

    fn go(&self, sources: &Path) -> Command {
        let mut go = Command::new("go");
        // Without cgo, the binary is the same on every machine, and no C compiler is needed.
        go.current_dir(sources)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .env_remove("GOFLAGS");
        if self.needs_newer_go {
            go.env("GOTOOLCHAIN", "auto");
        }
        go
    }

    fn compile(&self, sources: &Path, link: &str, out: &Path) -> anyhow::Result<()> {
        let mut download = self.go(sources);
        download.args(["mod", "download"]);
        run(download, &format!("fetching the Go modules of {}", self.of))?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut build = self.go(sources);
        if cores <= FEW_CORES {
            build.env("GOMAXPROCS", "1");
        }
        build
            .env("GOGC", COMPILER_GOGC)
            .env("GOMEMLIMIT", COMPILER_MEMORY)
            .args(["build", "-p"])
            .arg(cores.to_string())
            .args([
                "-mod=readonly",
                "-trimpath",
                "-buildvcs=false",
                "-gcflags",
                NO_DEBUG_INFORMATION,
                "-tags",
                self.tags,
                "-ldflags",
                link,
                "-o",
            ])
            .arg(out)
            .arg(self.package);
        run(
            build,
            &format!("compiling {} (takes minutes the first time)", self.of),
        )
    }
}

/// Cargo's target folder. A relative `CARGO_TARGET_DIR` is relative to the root of the workspace, since Cargo is run
/// there.
fn target_dir(crate_dir: &Path) -> PathBuf {
    let root = crate_dir.join("../..");
    let root = root.canonicalize().unwrap_or(root);
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

fn lock(file: &File) -> io::Result<()> {
    if file.try_lock().is_ok() {
        return Ok(());
    }
    eprintln!("controlplane: waiting for another build of the binaries");
    file.lock()
}

/// The linker flags that set the binary's version to the release in `go.mod`. The User-Agent has this version.
fn link_flags(sources: &Path) -> anyhow::Result<String> {
    let path = sources.join("go.mod");
    let text =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let version = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
        .with_context(|| {
            format!(
                "can't find the release of Kubernetes: {} does not require k8s.io/kubernetes",
                path.display()
            )
        })?;
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    let mut flags = "-s -w".to_owned();
    for package in [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ] {
        for (name, value) in [
            ("gitVersion", version),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
            ("gitCommit", ""),
        ] {
            flags.push_str(&format!(" -X {package}.{name}={value}"));
        }
    }
    Ok(flags)
}

/// A digest of everything that determines the binary, except for the version of Go.
fn digest(sources: &Path, folders: &[&str], link: &str) -> anyhow::Result<String> {
    let read = || -> io::Result<String> {
        let mut files = Vec::new();
        for folder in [""].iter().chain(folders) {
            for entry in fs::read_dir(sources.join(folder))? {
                files.push(entry?.path());
            }
        }
        files.retain(|path| {
            path.extension()
                .is_some_and(|extension| ["go", "mod", "sum"].iter().any(|e| extension == *e))
        });
        files.sort();
        let mut hash = Sha256::new_with_prefix(link);
        for file in files {
            let text = fs::read(&file)?;
            hash.update(format!(
                "\n{} {}\n",
                file.file_name().unwrap_or_default().display(),
                text.len()
            ));
            hash.update(text);
        }
        Ok(format!("{:x}", hash.finalize()))
    };
    read().with_context(|| format!("can't read the sources in {}", sources.display()))
}

/// Runs `command`, and prints `doing` at the start and at intervals.
fn run(mut command: Command, doing: &str) -> anyhow::Result<()> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    eprintln!("controlplane: {doing}");
    let begun = Instant::now();
    let child = match process::spawn(command) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "can't run `go` for {doing}: it is not in PATH; install Go 1.26 or later. KUBEBUILDER_ASSETS may name a folder \
             with the binaries etcd and kube-apiserver instead of building these"
        ),
        result => result.with_context(|| format!("can't run go for {doing}"))?,
    };
    let output = wait(child, || {
        eprintln!(
            "controlplane: {doing}, for {} s so far",
            begun.elapsed().as_secs()
        )
    })
    .with_context(|| format!("can't wait for go, {doing}"))?;
    ensure!(
        output.status.success(),
        "{doing} failed with {}; go printed:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    eprintln!("controlplane: {doing} took {} s", begun.elapsed().as_secs());
    Ok(())
}

fn wait(child: std::process::Child, mut progress: impl FnMut()) -> io::Result<Output> {
    let (done, ended) = mpsc::sync_channel(1);
    thread::spawn(move || done.send(child.wait_with_output()));
    loop {
        match ended.recv_timeout(PROGRESS) {
            Ok(output) => return output,
            Err(RecvTimeoutError::Timeout) => progress(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the waiting thread has ended"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_depends_on_each_source_and_the_version() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("main.go", "package main");
        write("README", "one");
        let digest = |version| digest(folder.path(), &["part"], version).unwrap();
        fs::create_dir(folder.path().join("part")).unwrap();
        let first = digest("v1");
        write("README", "two");
        assert_eq!(digest("v1"), first);
        assert_ne!(digest("v2"), first);
        write("main.go", "package other");
        let second = digest("v1");
        assert_ne!(second, first);
        write("part/part.go", "package part");
        assert_ne!(digest("v1"), second);
    }
}
