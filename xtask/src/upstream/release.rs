//! A release of Kubernetes in the Go module cache.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xtask::run::{command, output, run};

/// Where a path of the repository `kubernetes` begins that belongs to a module of its own.
const STAGING: &str = "staging/src/";

/// The sources of a release.
pub(super) struct Release {
    pub(super) tag: String,
    /// The folder of the Go module cache.
    cache: PathBuf,
}

impl Release {
    /// The release with a tag such as `v1.36.3`.
    ///
    /// # Errors
    /// The tag isn't one of Kubernetes 1, or Go isn't installed.
    pub(super) fn open(tag: &str) -> Result<Self> {
        if !tag.starts_with("v1.") {
            bail!("`{tag}` is not a tag of Kubernetes, such as v1.36.3");
        }
        let cache = output(command("go").args(["env", "GOMODCACHE"]))
            .context("can't ask `go` for the module cache")?;
        Ok(Self {
            tag: tag.to_owned(),
            cache: cache.into(),
        })
    }

    /// Whether the module that has this file is in the cache.
    pub(super) fn has_module_of(&self, path: &str) -> bool {
        let (module, _) = self.module_of(path);
        self.cache.join(module).is_dir()
    }

    /// The text of a file; `None` if the release has no such file. The path is that in the repository `kubernetes`.
    ///
    /// # Errors
    /// The file's module can't be downloaded, or the file can't be read. A retry may help.
    pub(super) fn read(&self, path: &str) -> Result<Option<String>> {
        let file = self.locate(path)?;
        if !file.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("can't read {}", file.display()))?;
        Ok(Some(text))
    }

    /// The names of the Go files in a folder, without tests, sorted. There are none if the folder doesn't exist.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub(super) fn go_files(&self, folder: &str) -> Result<Vec<String>> {
        let folder = self.locate(folder)?;
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for entry in folder.read_dir()? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".go") && !name.ends_with("_test.go") {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The path in the cache. Downloads the module if it is missing.
    fn locate(&self, path: &str) -> Result<PathBuf> {
        let (module, rest) = self.module_of(path);
        if !self.has_module_of(path) {
            eprintln!("downloading {module}");
            // A release may need a newer Go than the installed one, even to be downloaded.
            run(command("go")
                .args(["mod", "download", &module])
                .env("GOTOOLCHAIN", "auto"))
            .with_context(|| format!("can't download {module}"))?;
        }
        Ok(self.cache.join(module).join(rest))
    }

    /// The module with its version, and the path in it.
    fn module_of<'a>(&self, path: &'a str) -> (String, &'a Path) {
        let staged = path.strip_prefix(STAGING).and_then(|path| {
            path.match_indices('/')
                .nth(1)
                .map(|(end, _)| path.split_at(end))
        });
        match staged {
            // v1.36.3 of Kubernetes publishes v0.36.3 of each module.
            Some((module, rest)) => {
                let version = self.tag.replacen("v1.", "v0.", 1);
                (format!("{module}@{version}"), Path::new(&rest[1..]))
            }
            None => (format!("k8s.io/kubernetes@{}", self.tag), Path::new(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(tag: &str) -> Release {
        Release {
            tag: tag.to_owned(),
            cache: PathBuf::new(),
        }
    }

    #[test]
    fn a_staging_path_belongs_to_the_module_of_that_release() {
        let release = release("v1.38.0-beta.0");
        let (module, rest) =
            release.module_of("staging/src/k8s.io/endpointslice/topologycache/utils.go");
        assert_eq!(module, "k8s.io/endpointslice@v0.38.0-beta.0");
        assert_eq!(rest, Path::new("topologycache/utils.go"));
    }

    #[test]
    fn any_other_path_belongs_to_kubernetes() {
        let release = release("v1.36.3");
        let (module, rest) = release.module_of("pkg/controller/podgc/gc_controller.go");
        assert_eq!(module, "k8s.io/kubernetes@v1.36.3");
        assert_eq!(rest, Path::new("pkg/controller/podgc/gc_controller.go"));
    }

    #[test]
    fn another_tag_is_refused() {
        assert!(Release::open("main").is_err());
    }
}
