//! Projects in Python. componentize-py snapshots an interpreter that has imported the project's modules.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{PrintTypes, Sdk, Support, VENDORED, ensure_built, sdk_folder};
use crate::Project;
use crate::componentize::{self, WORLD, WORLD_ALONE};
use crate::embedded::{File, PYTHON_SDK, PYTHON_TEMPLATE};
use crate::resource_types;
use crate::tools::Tool;

/// The version of componentize-py that is known to work.
pub const COMPONENTIZE_PY: &str = "0.25.1";
/// The virtual environment in a project's folder.
const ENVIRONMENT: &str = ".venv";

pub(super) struct Python;

/// The part of `pyproject.toml` that is read.
#[derive(Deserialize)]
struct Manifest {
    project: Package,
    #[serde(default)]
    tool: Tools,
}

#[derive(Deserialize)]
struct Package {
    name: String,
}

#[derive(Default, Deserialize)]
struct Tools {
    #[serde(default)]
    flyball: Settings,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// The module whose class `Guest` is exported.
    module: String,
    /// The folders, besides the project's own, that modules are imported from.
    path: Vec<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            module: "app".into(),
            path: vec![VENDORED.into()],
        }
    }
}

impl Support for Python {
    fn manifest(&self) -> &'static str {
        "pyproject.toml"
    }

    fn name(&self, dir: &Path) -> Result<String> {
        Ok(manifest(dir)?.project.name)
    }

    fn required_tools(&self, project: &Project) -> Vec<Tool> {
        let program = componentize_py(project);
        let advice = format!(
            "makes components of Python; in the project's folder, run `python3 -m venv {ENVIRONMENT} && \
             {ENVIRONMENT}/bin/pip install componentize-py=={COMPONENTIZE_PY}` with Python 3.10 or later"
        );
        let tool = Tool::new(&[&program.to_string_lossy(), "--version"], &advice);
        vec![tool.named("componentize-py").at_least(0, 25)]
    }

    fn compile(&self, project: &Project, wit: &Path, work: &Path) -> Result<Vec<u8>> {
        let dir = &project.dir;
        let settings = manifest(dir)?.tool.flyball;
        let program = componentize_py(project);
        let output = std::path::absolute(work.join(format!("{}.wasm", project.name)))?;
        let mut command = Command::new(program);
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            // The backtrace of the tool itself doesn't help with the project.
            .env("RUST_BACKTRACE", "0");
        command.arg("-d").arg(std::path::absolute(wit)?).args([
            "-w",
            WORLD,
            "componentize",
            "--stub-wasi",
            "-p",
            ".",
        ]);
        for folder in &settings.path {
            ensure!(
                dir.join(folder).is_dir(),
                "{} names the folder {} under `tool.flyball.path`, which does not exist",
                dir.join(self.manifest()).display(),
                folder.display()
            );
            command.arg("-p").arg(folder);
        }
        // componentize-py adds the packages of this environment.
        if let Some(environment) = environment(project) {
            command.env("VIRTUAL_ENV", environment);
        }
        let built = command
            .arg(&settings.module)
            .arg("-o")
            .arg(&output)
            .status()
            .context("can't run componentize-py")?;
        ensure_built(built, dir, "componentize-py")?;
        let component =
            std::fs::read(&output).with_context(|| format!("can't read {}", output.display()))?;
        componentize::check(&component, &WORLD_ALONE)?;
        Ok(component)
    }

    fn resource_types(&self) -> Option<(&'static str, PrintTypes)> {
        Some(("api.py", resource_types::python::print))
    }

    fn template(&self) -> &'static [File] {
        &PYTHON_TEMPLATE
    }

    fn sdk(&self) -> &'static [File] {
        &PYTHON_SDK
    }

    fn sdk_reference(&self, sdk: Sdk) -> Result<String> {
        let given = match sdk {
            Sdk::Vendored => return Ok(VENDORED.into()),
            Sdk::At(path) => path,
        };
        let text = "name = \"flyball-sdk\"";
        sdk_folder(given, "pyproject.toml", text, "guests/sdk/python")
    }

    fn test_command(&self) -> &'static str {
        "python3 -m unittest"
    }
}

fn manifest(dir: &Path) -> Result<Manifest> {
    let path = dir.join("pyproject.toml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} has no project name", path.display()))
}

/// Returns the project's virtual environment: the given one, or else the user's active one, or else the one in the
/// project's folder.
fn environment(project: &Project) -> Option<PathBuf> {
    let active = || std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let own = || Some(project.dir.join(ENVIRONMENT));
    let found = project.environment.clone().or_else(active).or_else(own)?;
    std::path::absolute(found)
        .ok()
        .filter(|folder| folder.is_dir())
}

/// Returns the program in the project's environment, or else from the path.
fn componentize_py(project: &Project) -> PathBuf {
    let bin = if cfg!(windows) { "Scripts" } else { "bin" };
    let program = Path::new("componentize-py").with_extension(std::env::consts::EXE_EXTENSION);
    environment(project)
        .map(|folder| folder.join(bin).join(&program))
        .filter(|path| path.is_file())
        .unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_a_name_and_may_have_settings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pyproject.toml");
        std::fs::write(
            &path,
            "[project]\nname = \"a\"\n[tool.ruff]\nline-length = 100",
        )
        .unwrap();
        let found = manifest(folder.path()).unwrap();
        assert_eq!(found.project.name, "a");
        assert_eq!(found.tool.flyball.module, "app");
        assert_eq!(found.tool.flyball.path, [Path::new(VENDORED)]);
        let settings = "[project]\nname = \"a\"\n[tool.flyball]\nmodule = \"b\"\npath = []";
        std::fs::write(&path, settings).unwrap();
        let found = manifest(folder.path()).unwrap().tool.flyball;
        assert_eq!((found.module.as_str(), found.path.len()), ("b", 0));
        std::fs::write(&path, "[tool.flyball]\nmodule = \"b\"").unwrap();
        let error = format!("{:#}", manifest(folder.path()).err().unwrap());
        assert!(error.contains("has no project name"), "{error}");
    }

    #[test]
    fn a_missing_componentizer_is_named_with_how_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("pyproject.toml"),
            "[project]\nname = \"a\"",
        )
        .unwrap();
        let mut project = Project::open(folder.path()).unwrap();
        project.environment = Some(folder.path().into());
        let tool = Python.required_tools(&project).remove(0);
        assert_eq!(tool.name, "componentize-py");
        let install = format!("pip install componentize-py=={COMPONENTIZE_PY}");
        assert!(tool.advice.contains(&install), "{}", tool.advice);
        let program = folder.path().join("bin/componentize-py");
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::fs::write(&program, "").unwrap();
        assert_eq!(componentize_py(&project), program);
    }

    #[test]
    fn another_sdk_is_a_folder_with_its_manifest() {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/sdk/python");
        let found = Python.sdk_reference(Sdk::At(own)).unwrap();
        assert!(found.ends_with("guests/sdk/python"), "{found}");
        let error = Python
            .sdk_reference(Sdk::At("/no/such"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("guests/sdk/python"), "{error}");
    }
}
