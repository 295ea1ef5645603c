//! The languages of projects, and what each provides.

mod c;
pub(crate) mod go;
mod javascript;
mod python;
mod rust;

pub use python::COMPONENTIZE_PY;
pub use rust::RUST_TOOLCHAIN;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result, ensure};

use crate::embedded::File;
use crate::resource_types::Record;
use crate::tools::Tool;
use crate::{Language, Project};

/// Writes the generated bindings into a copy of the SDK for Go. `work` is a scratch folder.
///
/// # Errors
/// A file can't be written.
pub fn write_go_bindings(sdk: &Path, work: &Path) -> Result<()> {
    go::write_bindings(sdk, work)
}

/// The SDK that a new project uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sdk<'a> {
    /// The copy in the project's folder [`VENDORED`].
    Vendored,
    /// A folder, or another place that the language can refer to, such as a URL.
    At(&'a str),
}

/// Prints the types of custom resources.
pub(crate) type PrintTypes = fn(&[Record]) -> String;

/// The project's folder of the vendored SDK.
pub(crate) const VENDORED: &str = "flyball-sdk";

/// The steps of creating, building and testing a project that differ between languages.
pub(crate) trait Support: Sync {
    /// The file that every project in this language has.
    fn manifest(&self) -> &'static str;

    /// Whether the folder holds a project in this language.
    fn is_project(&self, dir: &Path) -> bool {
        dir.join(self.manifest()).is_file()
    }

    /// The project's name, from its manifest.
    fn name(&self, dir: &Path) -> Result<String>;

    /// The scratch folder of builds, in the project's folder.
    fn work(&self) -> &'static str {
        "build"
    }

    /// The tools that builds need.
    fn required_tools(&self, project: &Project) -> Vec<Tool>;

    /// Builds the project, and returns the component. `wit` is a folder with the world; `work` is the scratch folder.
    fn compile(&self, project: &Project, wit: &Path, work: &Path) -> Result<Vec<u8>>;

    /// Folders outside of the project's whose sources are parts of the component, such as that of the project which a
    /// plugin was imported from.
    fn further_sources(&self, _dir: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The CustomResourceDefinitions that the project's types describe, in JSON: one after another. None if types don't
    /// describe them in this language or project.
    fn definitions(&self, _project: &Project) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// The file with the types that are generated from the definitions, and what prints them; none if types describe the
    /// definitions, or if none are generated.
    fn resource_types(&self) -> Option<(&'static str, PrintTypes)> {
        None
    }

    /// The files of a new project, named as in the project with `.in` appended. `{{NAME}}`, `{{IDENTIFIER}}` (the name
    /// with underscores), `{{TYPE}}` (the name in CamelCase) and `{{SDK}}` are replaced.
    fn template(&self) -> &'static [File];

    /// The files of a new project of a cloud, in the form of [`template`](Self::template), with `{{CLOUD_SDK}}` besides;
    /// none if there is no SDK for clouds in this language.
    fn cloud_template(&self) -> Option<&'static [File]> {
        None
    }

    /// The text for `{{CLOUD_SDK}}`. Fails if the place holds no SDK.
    fn cloud_sdk_reference(&self, sdk: Sdk) -> Result<String> {
        self.sdk_reference(sdk)
    }

    /// The files of the SDK that are vendored.
    fn sdk(&self) -> &'static [File];

    /// Returns the content of a vendored file, given its content in the repository.
    fn vendored(&self, _path: &str, content: &'static [u8]) -> Result<Cow<'static, [u8]>> {
        Ok(Cow::Borrowed(content))
    }

    /// Adds the files to a vendored SDK that are generated, so that the language's tools work before the first build.
    /// `work` is a scratch folder.
    fn complete(&self, _sdk: &Path, _work: &Path) -> Result<()> {
        Ok(())
    }

    /// The text for `{{SDK}}`. Fails if the place holds no SDK.
    fn sdk_reference(&self, sdk: Sdk) -> Result<String>;

    /// Returns why a valid name of a plugin can't be the name of a project; none if it can.
    fn refuses_name(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// The command that runs the project's tests.
    fn test_command(&self) -> &'static str;
}

/// Fails if a tool failed. The tool has shown its errors itself.
fn ensure_built(status: ExitStatus, what: &Path, tool: &str) -> Result<()> {
    ensure!(
        status.success(),
        "can't build {}: {tool} failed with the errors above",
        what.display()
    );
    Ok(())
}

/// Returns the path of a folder with an SDK: one with this manifest, which contains this text. `place` is the SDK's
/// folder in a checkout.
fn sdk_folder(given: &str, manifest: &str, text: &str, place: &str) -> Result<String> {
    let path = Path::new(given);
    let is_sdk =
        std::fs::read_to_string(path.join(manifest)).is_ok_and(|found| found.contains(text));
    ensure!(
        is_sdk,
        "--sdk {given} is not Flyball's SDK for this language: name the folder `{place}` of a checkout"
    );
    let path = path
        .canonicalize()
        .with_context(|| format!("can't find {}", path.display()))?;
    let path = path
        .to_str()
        .with_context(|| format!("the path {} is not Unicode", path.display()))?;
    Ok(path.to_owned())
}

impl Language {
    /// All languages, in the order in which a project's language is looked for.
    pub const ALL: [Self; 6] = [
        Self::Rust,
        Self::Go,
        Self::TypeScript,
        Self::JavaScript,
        Self::Python,
        Self::C,
    ];

    /// Finds the language of a project by its files.
    pub fn detect(dir: &Path) -> Result<Self> {
        let found = Self::ALL
            .into_iter()
            .find(|language| language.support().is_project(dir));
        found.with_context(|| {
            let manifests: Vec<&str> = Self::ALL
                .iter()
                .map(|language| language.support().manifest())
                .collect();
            format!(
                "{} is not a project: it has no {}; name another folder, or create a project with `flyball new`",
                dir.display(),
                manifests.join(" or ")
            )
        })
    }

    pub(crate) fn support(self) -> &'static dyn Support {
        match self {
            Self::Rust => &rust::Rust,
            Self::Go => &go::Go,
            Self::TypeScript => &javascript::TYPESCRIPT,
            Self::JavaScript => &javascript::JAVASCRIPT,
            Self::Python => &python::Python,
            Self::C => &c::C,
        }
    }
}
