//! `flyball import`: makes a plugin of a Go project that is written for controller-runtime. The SDK for Go has the
//! program that reads the project and writes the plugin's module (`guests/sdk/go/internal/importer`); this module gives
//! it the SDK, and checks what it was asked for.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::embedded::{GO_SDK, write_all};
use crate::languages::{VENDORED, go};
use crate::{Language, new};

/// The default folder of the plugin, in the project's folder.
const FOLDER: &str = "plugin";

/// A project to import.
#[derive(Clone, Debug)]
pub struct Import {
    /// The project's folder.
    pub project: PathBuf,
    /// The plugin's name; by default the last part of the project's module.
    pub name: Option<String>,
    /// The folder to create; by default `plugin` in the project's folder.
    pub dir: Option<PathBuf>,
}

/// A module that was written for a plugin.
#[derive(Clone, Debug)]
pub struct Imported {
    pub name: String,
    pub dir: PathBuf,
    pub report: Report,
}

/// What the plugin has of the project, and what it doesn't have.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Report {
    /// The files, relative to the plugin's folder.
    pub wrote: Vec<String>,
    /// The reconcilers that the plugin sets up.
    pub controllers: Vec<String>,
    /// Parts that are left out, each with its place and the reason.
    pub left: Vec<String>,
    /// Other remarks.
    pub notes: Vec<String>,
}

impl Import {
    /// Writes the plugin's module. Nothing is left behind if that fails.
    pub fn run(self) -> Result<Imported> {
        let manifest = self.project.join("go.mod");
        ensure!(
            manifest.is_file(),
            "can't import {}: it has no go.mod; name the folder of a Go module that is written for controller-runtime",
            self.project.display()
        );
        let project = self.project.canonicalize();
        let project = project.with_context(|| format!("can't find {}", self.project.display()))?;
        let name = match self.name {
            Some(name) => name,
            None => plugin_name(&Language::Go.support().name(&project)?),
        };
        new::check(&name, Language::Go)?;
        crate::tools::require(&[go::tool().at_least(1, 26)])
            .with_context(|| format!("can't import {}", project.display()))?;
        let given = self.dir.unwrap_or_else(|| self.project.join(FOLDER));
        let dir = std::path::absolute(&given)
            .with_context(|| format!("can't find {}", given.display()))?;
        ensure!(
            !dir.exists(),
            "can't create the plugin in {}: the folder exists; name another one with --dir",
            given.display()
        );
        match create(&project, &dir, &name) {
            Ok(report) => Ok(Imported {
                name,
                dir: given,
                report,
            }),
            Err(error) => {
                // The folder did not exist before.
                let _ = std::fs::remove_dir_all(&dir);
                Err(error)
            }
        }
    }
}

/// Writes the SDK and the plugin's module.
fn create(project: &Path, dir: &Path, name: &str) -> Result<Report> {
    let sdk = dir.join(VENDORED);
    write_all(&GO_SDK, &sdk)?;
    let support = Language::Go.support();
    support.complete(&sdk, &dir.join(support.work()))?;
    let printed = go::import(&sdk, project, dir, name)
        .with_context(|| format!("can't import {}", project.display()))?;
    serde_json::from_slice(&printed).context("the importer's report is malformed")
}

/// Makes the name of a plugin of the name of a module.
fn plugin_name(module: &str) -> String {
    let lower = module.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_gives_the_plugin_its_name() {
        assert_eq!(plugin_name("web"), "web");
        assert_eq!(plugin_name("Web_Operator.io"), "web-operator-io");
    }

    #[test]
    fn what_cannot_be_imported_is_an_error_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let import = |name: Option<&str>| {
            let import = Import {
                project: folder.path().into(),
                name: name.map(str::to_owned),
                dir: None,
            };
            import.run().unwrap_err().to_string()
        };
        assert!(import(None).contains("it has no go.mod"));
        std::fs::write(folder.path().join("go.mod"), "module example.com/web\n").unwrap();
        assert!(import(Some("Web")).contains("can't be a plugin's name"));
        assert!(!folder.path().join(FOLDER).exists());
        std::fs::create_dir(folder.path().join(FOLDER)).unwrap();
        let error = import(None);
        assert!(
            error.contains("--dir") || error.contains("can't import"),
            "{error}"
        );
    }
}
