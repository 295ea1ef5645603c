//! Projects in TypeScript and JavaScript. The TypeScript compiler checks the types, esbuild bundles the modules, and
//! componentize-qjs makes a component of the bundle and the engine QuickJS. All three are npm packages of the project.

use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{PrintTypes, Sdk, Support, VENDORED, sdk_folder};
use crate::Project;
use crate::componentize::{self, WORLD, WORLD_ALONE};
use crate::embedded::{File, JAVASCRIPT_SDK, JAVASCRIPT_TEMPLATE, TYPESCRIPT_TEMPLATE};
use crate::resource_types;
use crate::tools::Tool;

const MANIFEST: &str = "package.json";
/// The file by which a project in TypeScript is recognised.
const TYPES: &str = "tsconfig.json";
/// Node's least version, for its test runner and for the tools.
const NODE: (u32, u32) = (20, 0);
/// Names that a project can't have: npm refuses to install a package into a project of the same name.
const DEPENDENCIES: [&str; 3] = ["componentize-qjs", "esbuild", "typescript"];
/// The file that componentize-qjs gets. Stack traces name it.
const BUNDLE: &str = "controller.js";

/// One of the two languages.
pub(super) struct JavaScript {
    typed: bool,
}

pub(super) const JAVASCRIPT: JavaScript = JavaScript { typed: false };
pub(super) const TYPESCRIPT: JavaScript = JavaScript { typed: true };

impl Support for JavaScript {
    fn manifest(&self) -> &'static str {
        if self.typed { TYPES } else { MANIFEST }
    }

    fn is_project(&self, dir: &Path) -> bool {
        dir.join(MANIFEST).is_file() && dir.join(TYPES).is_file() == self.typed
    }

    fn name(&self, dir: &Path) -> Result<String> {
        let name = Manifest::read(dir)?.name;
        // A scope is not part of the plugin's name.
        Ok(name.rsplit('/').next().unwrap_or(&name).to_owned())
    }

    fn required_tools(&self, project: &Project) -> Vec<Tool> {
        let node = "runs JavaScript; see https://nodejs.org/en/download, or install `nodejs` from your distribution";
        let npm =
            "installs packages; it comes with Node.js, or install `npm` from your distribution";
        let mut tools = vec![
            Tool::new(&["node", "--version"], node).at_least(NODE.0, NODE.1),
            Tool::new(&["npm", "--version"], npm),
        ];
        let local = |name: &str, probe: &str, purpose: &str| {
            let advice = format!("{purpose}; run `npm install` in the project's folder");
            let path = local_tool(&project.dir, name);
            Tool::new(&[&path.to_string_lossy(), probe], &advice).named(name)
        };
        if self.typed {
            tools.push(local("tsc", "--version", "checks types"));
        }
        tools.push(local("esbuild", "--version", "bundles modules"));
        tools.push(local("componentize-qjs", "--help", "makes components"));
        tools
    }

    fn compile(&self, project: &Project, wit: &Path, work: &Path) -> Result<Vec<u8>> {
        let dir = project
            .dir
            .canonicalize()
            .with_context(|| format!("can't find {}", project.dir.display()))?;
        let work = work
            .canonicalize()
            .with_context(|| format!("can't find {}", work.display()))?;
        if self.typed {
            check_types(&dir)?;
        }
        bundle(&dir, &Manifest::read(&dir)?.entry(self.typed), &work)?;
        let component = componentize(&dir, &std::path::absolute(wit)?, &work)?;
        componentize::check(&component, &WORLD_ALONE)?;
        Ok(component)
    }

    fn resource_types(&self) -> Option<(&'static str, PrintTypes)> {
        let file = if self.typed {
            "src/api.ts"
        } else {
            "src/api.d.ts"
        };
        Some((file, resource_types::typescript::print))
    }

    fn template(&self) -> &'static [File] {
        if self.typed {
            &TYPESCRIPT_TEMPLATE
        } else {
            &JAVASCRIPT_TEMPLATE
        }
    }

    fn sdk(&self) -> &'static [File] {
        &JAVASCRIPT_SDK
    }

    fn sdk_reference(&self, sdk: Sdk) -> Result<String> {
        let given = match sdk {
            Sdk::Vendored => return Ok(format!("file:./{VENDORED}")),
            Sdk::At(path) => path,
        };
        let path = sdk_folder(given, MANIFEST, "\"@flyball/sdk\"", "guests/sdk/js")?;
        // The text is part of a string in JSON.
        let quoted = serde_json::to_string(&format!("file:{path}"))?;
        Ok(quoted.trim_matches('"').to_owned())
    }

    fn refuses_name(&self, name: &str) -> Option<&'static str> {
        DEPENDENCIES
            .contains(&name)
            .then_some("it is the name of an npm package that the project needs")
    }

    fn test_command(&self) -> &'static str {
        "npm install && npm test"
    }
}

/// The fields of `package.json` that builds read.
#[derive(Deserialize)]
struct Manifest {
    name: String,
    /// The entry, which exports the interface `guest`.
    main: Option<String>,
}

impl Manifest {
    fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(MANIFEST);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("can't read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| {
            format!(
                "can't read {}: it has no name, or is not JSON",
                path.display()
            )
        })
    }

    fn entry(self, typed: bool) -> String {
        let default = if typed { "src/main.ts" } else { "src/main.js" };
        self.main.unwrap_or_else(|| default.into())
    }
}

/// Returns the path of a program of an npm package, of the project or of a folder above it, as in a workspace of npm.
fn local_tool(dir: &Path, name: &str) -> PathBuf {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let of = |folder: &Path| folder.join("node_modules/.bin").join(name);
    let found = dir.ancestors().map(of).find(|path| path.is_file());
    found.unwrap_or_else(|| of(&dir))
}

fn tool(dir: &Path, name: &str) -> Command {
    let mut command = Command::new(local_tool(dir, name));
    command.current_dir(dir).stdin(Stdio::null());
    command
}

fn check_types(dir: &Path) -> Result<()> {
    let status = tool(dir, "tsc")
        .arg("--noEmit")
        .status()
        .context("can't run `tsc`")?;
    ensure!(
        status.success(),
        "can't build {}: tsc found the errors above",
        dir.display()
    );
    Ok(())
}

/// Bundles the modules of the project, and appends what stack traces need to name files and lines of the sources.
fn bundle(dir: &Path, entry: &str, work: &Path) -> Result<()> {
    let path = work.join("bundle.js");
    let status = tool(dir, "esbuild")
        .arg(entry)
        .args([
            "--bundle",
            "--format=esm",
            "--platform=neutral",
            "--main-fields=module,main",
            "--target=es2023",
            "--external:flyball:*",
            "--sourcemap=external",
            "--sources-content=false",
            "--log-level=warning",
        ])
        .arg(format!("--outfile={}", path.display()))
        .status()
        .context("can't run `esbuild`")?;
    ensure!(
        status.success(),
        "can't build {}: esbuild found the errors above; plugins have neither Node's modules nor a browser's",
        dir.display()
    );
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
    };
    let map: SourceMap = serde_json::from_str(&read(&work.join("bundle.js.map"))?)
        .context("can't read the source map of esbuild")?;
    let map = serde_json::to_string(&map.relative_to(dir, work))?;
    let code = format!("{}\nglobalThis.flyballSourceMap = {map};\n", read(&path)?);
    let path = work.join(BUNDLE);
    std::fs::write(&path, code).with_context(|| format!("can't write {}", path.display()))
}

/// The parts of a source map that stack traces need, as `guest/trace.js` of the SDK reads them.
#[derive(Deserialize, Serialize)]
struct SourceMap {
    #[serde(default)]
    file: String,
    sources: Vec<String>,
    mappings: String,
}

impl SourceMap {
    /// Makes the sources, which are relative to `work`, relative to the project. For sources outside the project, keeps
    /// only the part that differs from the project's path, so that the component doesn't depend on where the repository
    /// is checked out.
    fn relative_to(self, dir: &Path, work: &Path) -> Self {
        let shown = |source: &String| {
            let path = normal(&work.join(source));
            let common = dir
                .ancestors()
                .find(|folder| path.starts_with(folder))
                .unwrap_or(Path::new("/"));
            let rest = path.strip_prefix(common).unwrap_or(&path);
            rest.to_string_lossy().into_owned()
        };
        Self {
            file: BUNDLE.into(),
            sources: self.sources.iter().map(shown).collect(),
            mappings: self.mappings,
        }
    }
}

/// Resolves the `..` of a path.
fn normal(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(resolved.pop()),
            part => resolved.push(part),
        }
    }
    resolved
}

/// Makes a component of the bundle. The modules are run, and the state after that is what instances begin with.
fn componentize(dir: &Path, wit: &Path, work: &Path) -> Result<Vec<u8>> {
    let path = work.join("component.wasm");
    let output = Command::new(local_tool(dir, "componentize-qjs"))
        .current_dir(work)
        .stdin(Stdio::null())
        .args(["--sync", "--stub-wasi", "--world", WORLD, "--js", BUNDLE])
        .arg("--wit")
        .arg(wit)
        .arg("--output")
        .arg(&path)
        .output()
        .context("can't run `componentize-qjs`")?;
    if !output.status.success() {
        let mut stderr = std::io::stderr();
        // If standard error is closed, only the tool's output is lost.
        let _ = stderr.write_all(&output.stdout);
        let _ = stderr.write_all(&output.stderr);
        bail!(
            "can't build {}: componentize-qjs failed with the errors above; the modules are run during the build, so don't call \
             the host, `console` or the clock outside of functions (lines of {BUNDLE} are those of {})",
            dir.display(),
            work.join(BUNDLE).display()
        );
    }
    std::fs::read(&path).with_context(|| format!("can't read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_with_types_is_one_in_typescript() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        assert!(!JAVASCRIPT.is_project(dir) && !TYPESCRIPT.is_project(dir));
        std::fs::write(dir.join(MANIFEST), r#"{"name": "@team/quotas"}"#).unwrap();
        assert!(JAVASCRIPT.is_project(dir) && !TYPESCRIPT.is_project(dir));
        std::fs::write(dir.join(TYPES), "{}").unwrap();
        assert!(!JAVASCRIPT.is_project(dir) && TYPESCRIPT.is_project(dir));
        assert_eq!(TYPESCRIPT.name(dir).unwrap(), "quotas");
        let entry = |typed| Manifest::read(dir).unwrap().entry(typed);
        assert_eq!(
            (&*entry(true), &*entry(false)),
            ("src/main.ts", "src/main.js")
        );
        std::fs::write(dir.join(MANIFEST), "{}").unwrap();
        let error = TYPESCRIPT.name(dir).unwrap_err().to_string();
        assert!(error.contains("package.json"), "{error}");
    }

    #[test]
    fn the_tools_of_packages_are_missing_until_they_are_installed() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project {
            dir: folder.path().join("packages/a"),
            name: "a".into(),
            language: crate::Language::TypeScript,
            toolchain: None,
            environment: None,
        };
        let tools = TYPESCRIPT.required_tools(&project);
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["node", "npm", "tsc", "esbuild", "componentize-qjs"]);
        assert_eq!(tools[3].problem().as_deref(), Some("not installed"));
        assert!(tools[3].advice.contains("run `npm install`"));
        // The root of a workspace of npm has the packages of all projects.
        let bin = folder.path().join("node_modules/.bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("esbuild"), "").unwrap();
        assert_eq!(local_tool(&project.dir, "esbuild"), bin.join("esbuild"));
    }

    #[test]
    fn sources_are_named_from_the_project_or_from_what_is_above_both() {
        let map = SourceMap {
            file: String::new(),
            sources: vec!["../src/a.ts".into(), "../../../sdk-js/src/host.js".into()],
            mappings: "AAAA".into(),
        };
        let map = map.relative_to(Path::new("/x/examples/a"), Path::new("/x/examples/a/build"));
        assert_eq!(map.sources, ["src/a.ts", "sdk-js/src/host.js"]);
        assert_eq!(map.file, BUNDLE);
    }

    #[test]
    fn another_sdk_is_a_folder_with_its_package() {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/sdk/js");
        let found = JAVASCRIPT.sdk_reference(Sdk::At(own)).unwrap();
        assert!(
            found.starts_with("file:/") && found.ends_with("guests/sdk/js"),
            "{found}"
        );
        let error = JAVASCRIPT.sdk_reference(Sdk::At("/no/such"));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("--sdk /no/such is not Flyball's SDK"),
            "{error}"
        );
    }

    #[test]
    fn a_project_has_no_name_of_its_own_dependency() {
        assert!(TYPESCRIPT.refuses_name("esbuild").is_some());
        assert!(TYPESCRIPT.refuses_name("my-esbuild").is_none());
    }
}
