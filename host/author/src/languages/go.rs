//! Projects in Go. The Go toolchain compiles them for WASI preview 1, with bindings that are generated into the SDK.

mod bindings;
mod round_trip;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Sdk, Support, VENDORED, ensure_built, sdk_folder};
use crate::Project;
use crate::componentize;
use crate::embedded::{self, File, GO_CLOUD_TEMPLATE, GO_SDK, GO_TEMPLATE};
use crate::names;
use crate::parts::Parts;
use crate::tools::Tool;

/// The module of the SDK.
const MODULE: &str = "flyball.dev/sdk";
/// The module controller-runtime. The SDK's module `controllerruntime` has the same API, and copies parts of it.
const CONTROLLER_RUNTIME: &str = "sigs.k8s.io/controller-runtime";
/// Its client, which the SDK's module `controllerruntime/clientgo` stands in for.
const CLIENT_GO: &str = "k8s.io/client-go";
/// The folder of controller-runtime's module in the SDK.
const ADAPTED: &str = "controllerruntime";
/// The modules of the SDK, and those that it has in place of others'.
const SDK: [&str; 4] = [MODULE, CLOUD_PROVIDER, CONTROLLER_RUNTIME, CLIENT_GO];
/// The module of the SDK for clouds that are written for Kubernetes' interface.
const CLOUD_PROVIDER: &str = "flyball.dev/sdk/cloudprovider";
/// The packages of the SDK whose use makes a plugin a cloud, one that sends HTTP requests, or one with the clients of
/// Kubernetes.
const CLOUD: &str = "flyball.dev/sdk/cloud";
const HTTP: &str = "flyball.dev/sdk/wasihttp";
const KUBERNETES: &str = "flyball.dev/sdk/cloudprovider/plugin";

/// The folder of the SDK with the program that makes CustomResourceDefinitions of Go types. It is a module of its own,
/// so that plugins do not depend on what it needs.
const GENERATOR: &str = "crdgen";

/// Memory that no program in Go uses: the linker keeps it free for the arguments of programs in browsers, after the
/// page of nil pointers (`wasmMinDataAddr` in cmd/link).
const UNUSED: Range<u32> = 4096..4096 + 8192;

/// The variables of the environment that make Go compile for WebAssembly.
const WASM: [(&str, &str); 2] = [("GOOS", "wasip1"), ("GOARCH", "wasm")];

/// The files of a new cloud. Its checksums are those of the SDK's module for clouds, which needs the same modules.
static CLOUD_TEMPLATE: LazyLock<Vec<File>> = LazyLock::new(|| {
    let sums = GO_SDK
        .iter()
        .find(|(path, _)| *path == "cloudprovider/go.sum");
    let sums = sums.map(|(_, content)| ("go.sum.in", *content));
    GO_CLOUD_TEMPLATE.iter().copied().chain(sums).collect()
});

pub(super) struct Go;

impl Support for Go {
    fn manifest(&self) -> &'static str {
        "go.mod"
    }

    fn name(&self, dir: &Path) -> Result<String> {
        let module = module(dir)?;
        Ok(module.rsplit('/').next().unwrap_or(&module).to_owned())
    }

    fn required_tools(&self, _project: &Project) -> Vec<Tool> {
        vec![tool().at_least(1, 25)]
    }

    fn compile(&self, project: &Project, wit: &Path, work: &Path) -> Result<Vec<u8>> {
        let dir = &project.dir;
        if let Some(sdk) = replaced_sdk(dir)? {
            bindings::generate(wit, &sdk)
                .with_context(|| format!("can't generate bindings into {}", sdk.display()))?;
        }
        if let Some(module) = replacement(dir, CONTROLLER_RUNTIME)? {
            copy_upstream(&module)?;
        }
        let packages = packages(dir)?;
        let uses = |name: &str| packages.lines().any(|package| package == name);
        let parts = Parts {
            cloud: uses(CLOUD),
            http: uses(HTTP),
        };
        let module = std::path::absolute(work.join(format!("{}.core.wasm", project.name)))?;
        let mut build = go(
            dir,
            [
                "build",
                "-buildmode=c-shared",
                "-trimpath",
                // The names of functions stay, and are reduced below.
                "-ldflags=-w",
            ],
        );
        if parts.http {
            build.arg("-overlay").arg(round_trip::overlay(dir, work)?);
        }
        if uses(KUBERNETES) {
            build.arg("-modfile").arg(trim(dir, work)?);
        }
        let built = build
            .arg("-o")
            .arg(&module)
            .arg(".")
            .envs(WASM)
            .stdout(Stdio::inherit())
            .status()
            .context("can't run `go`")?;
        ensure_built(built, dir, "go")?;
        let bytes =
            std::fs::read(&module).with_context(|| format!("can't read {}", module.display()))?;
        let authors = authors(dir)?;
        let bytes = names::reduce(&bytes, |name| authors_name(name, &authors))
            .with_context(|| format!("can't reduce the names in {}", module.display()))?;
        let component = componentize::component_with(bytes, wit, UNUSED, parts).with_context(|| {
            format!(
                "can't encode {} as a component: does the main package call `flyball.Export` in an init function?",
                module.display()
            )
        })?;
        componentize::check(&component, parts.interfaces())?;
        Ok(component)
    }

    fn definitions(&self, project: &Project) -> Result<Option<Vec<u8>>> {
        project.check_tools()?;
        let folder = project.work().join(GENERATOR);
        let files = GO_SDK.iter().filter_map(|(path, content)| {
            let path = path.strip_prefix(GENERATOR)?.strip_prefix('/')?;
            Some((path, *content))
        });
        for (path, content) in files {
            embedded::write(&folder.join(path), content)?;
        }
        let program = std::path::absolute(folder.join("crdgen"))?;
        let built = go(&folder, ["build", "-o"])
            .arg(&program)
            .arg(".")
            // The folder is not a part of the author's workspace, and a vendor folder has other modules.
            .env("GOWORK", "off")
            .env("GOFLAGS", "-mod=mod")
            .stdout(Stdio::inherit())
            .status()
            .context("can't run `go`")?;
        ensure!(
            built.success(),
            "can't build what makes CustomResourceDefinitions of Go types, controller-gen's library: `go build` failed with \
             the errors above; the first time, it downloads modules"
        );
        let printed = Command::new(&program)
            // As a path of folders, the pattern would also match modules below, such as the SDK.
            .arg(format!("{}/...", module(&project.dir)?))
            .current_dir(&project.dir)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("can't run {}", program.display()))?;
        ensure_built(printed.status, &project.dir, "controller-gen's library")?;
        Ok(Some(printed.stdout))
    }

    fn template(&self) -> &'static [File] {
        &GO_TEMPLATE
    }

    fn cloud_template(&self) -> Option<&'static [File]> {
        Some(&CLOUD_TEMPLATE)
    }

    /// The module for clouds is in the folder of the SDK.
    fn cloud_sdk_reference(&self, sdk: Sdk) -> Result<String> {
        Ok(format!("{}/cloudprovider", self.sdk_reference(sdk)?))
    }

    fn sdk(&self) -> &'static [File] {
        &GO_SDK
    }

    /// The folders that replace modules.
    fn further_sources(&self, dir: &Path) -> Vec<PathBuf> {
        let module = std::fs::read_to_string(dir.join("go.mod")).unwrap_or_default();
        let replaced = module.lines().filter_map(|line| line.split_once("=>"));
        // A comment may follow.
        let folders = replaced.map(|(_, to)| to.split("//").next().unwrap_or(to).trim());
        folders
            .filter(|folder| Path::new(folder).starts_with(".."))
            .filter_map(|folder| dir.join(folder).canonicalize().ok())
            .filter(|folder| folder.is_dir())
            .collect()
    }

    /// The bindings of the world. `go get` and `go mod tidy` read them on every platform.
    fn complete(&self, sdk: &Path, work: &Path) -> Result<()> {
        write_bindings(sdk, work)
            .with_context(|| format!("can't generate bindings into {}", sdk.display()))
    }

    fn sdk_reference(&self, sdk: Sdk) -> Result<String> {
        let given = match sdk {
            Sdk::Vendored => return Ok(format!("./{VENDORED}")),
            Sdk::At(path) => path,
        };
        sdk_folder(given, "go.mod", MODULE, "guests/sdk/go")
    }

    fn refuses_name(&self, name: &str) -> Option<&'static str> {
        let is_version = name
            .strip_prefix('v')
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()));
        is_version.then_some("Go takes it for the major version of a module")
    }

    fn test_command(&self) -> &'static str {
        "go test ./..."
    }
}

/// Returns the path of the project's module.
fn module(dir: &Path) -> Result<String> {
    let path = dir.join("go.mod");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let module = text
        .lines()
        .find_map(|line| line.strip_prefix("module "))
        .with_context(|| format!("{} names no module", path.display()))?;
    let module = module.split("//").next().unwrap_or_default();
    Ok(module.trim().trim_matches('"').to_owned())
}

/// Go itself.
pub(crate) fn tool() -> Tool {
    let advice = "compiles Go; see https://go.dev/dl, or install `golang` from your distribution";
    Tool::new(&["go", "version"], advice)
}

/// Writes the module of a plugin with the controllers of a project, by the program in a complete SDK. Returns its
/// report.
pub(crate) fn import(sdk: &Path, project: &Path, plugin: &Path, name: &str) -> Result<Vec<u8>> {
    copy_upstream(&sdk.join(ADAPTED))?;
    let output = go(sdk, ["run", "./internal/importer", "-name", name])
        .arg("-project")
        .arg(project)
        .arg("-plugin")
        .arg(plugin)
        .env("GOWORK", "off")
        .output()
        .context("can't run `go`")?;
    ensure!(output.status.success(), "it failed with the errors above");
    Ok(output.stdout)
}

/// Copies the parts of controller-runtime that are unchanged into the module that stands in for it.
fn copy_upstream(module: &Path) -> Result<()> {
    let generated = go(module, ["generate", "."])
        .env("GOWORK", "off")
        .status()
        .context("can't run `go`")?;
    ensure!(
        generated.success(),
        "can't copy files of {CONTROLLER_RUNTIME} into {}: `go generate` failed with the errors above",
        module.display()
    );
    Ok(())
}

fn go<'a>(dir: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(dir)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    command
}

/// Returns the folder of the SDK if the project replaces the module by a folder. A published module has its bindings.
fn replaced_sdk(dir: &Path) -> Result<Option<PathBuf>> {
    let used = go(dir, ["list", "-m", MODULE])
        .stdout(Stdio::null())
        .status()
        .context("can't run `go`")?;
    ensure!(
        used.success(),
        "{} does not use the SDK: its go.mod needs `require {MODULE}`; `flyball new --lang go` creates a project that has it",
        dir.display()
    );
    replacement(dir, MODULE)
}

/// Returns the folder that the project replaces a module by.
fn replacement(dir: &Path, module: &str) -> Result<Option<PathBuf>> {
    let format = "{{if .Replace}}{{if not .Replace.Version}}{{.Dir}}{{end}}{{end}}";
    // With -e, a module that the project does not use isn't an error.
    let output = go(dir, ["list", "-e", "-m", "-f", format, module])
        .output()
        .context("can't run `go`")?;
    ensure!(
        output.status.success(),
        "can't tell what {} replaces {module} by: `go list` failed with the errors above",
        dir.display()
    );
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((!folder.is_empty()).then(|| folder.into()))
}

/// Generates the bindings into a copy of the SDK, as it is published.
pub(crate) fn write_bindings(sdk: &Path, work: &Path) -> Result<()> {
    let wit = work.join("wit");
    embedded::write_all(&embedded::WIT, &wit)?;
    bindings::generate(&wit, sdk)
}

/// Returns all packages of the plugin, one a line.
fn packages(dir: &Path) -> Result<String> {
    let output = go(dir, ["list", "-deps", "."])
        .envs(WASM)
        .output()
        .context("can't run `go`")?;
    ensure!(
        output.status.success(),
        "can't list the packages of {}: `go list` failed with the errors above",
        dir.display()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Leaves those API groups out of client-go that the plugin does not use, which are the largest part of it. Returns a go.mod
/// with the smaller module. The program is one of the SDK, because it reads Go.
fn trim(dir: &Path, work: &Path) -> Result<PathBuf> {
    let folder = std::path::absolute(work.join("trimmed"))?;
    let trimmed = go(dir, ["run", &format!("{CLOUD_PROVIDER}/trim"), "-out"])
        .arg(&folder)
        .status()
        .context("can't run `go`")?;
    ensure!(
        trimmed.success(),
        "can't leave out the API groups that {} does not use: `go run` failed with the errors above",
        dir.display()
    );
    Ok(folder.join("go.mod"))
}

/// Returns the modules whose code is the author's: the project's, and those that it replaces by folders, without the
/// SDK's.
fn authors(dir: &Path) -> Result<Vec<String>> {
    let output = go(dir, ["mod", "edit", "-json"])
        .output()
        .context("can't run `go`")?;
    ensure!(
        output.status.success(),
        "can't read the go.mod of {}: `go mod edit` failed with the errors above",
        dir.display()
    );
    let module: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("can't read the go.mod of {}", dir.display()))?;
    let replaced = module["Replace"].as_array().into_iter().flatten();
    let local = replaced
        .filter(|replaced| replaced["New"]["Version"].is_null())
        .map(|replaced| &replaced["Old"]["Path"]);
    let paths = local.chain([&module["Module"]["Path"]]);
    let names = paths.filter_map(|path| path.as_str().map(str::to_owned));
    Ok(names.filter(|path| !SDK.contains(&path.as_str())).collect())
}

/// Returns the name of a function as its author writes it; none if it belongs to none of the modules. Go's linker
/// replaces all but letters, digits, dots and underscores by underscores.
fn authors_name(name: &str, modules: &[String]) -> Option<String> {
    if name.starts_with("main.") {
        return Some(with_receiver(name));
    }
    modules.iter().find_map(|module| {
        let linked: String = module
            .chars()
            .map(|c| {
                if c.is_alphanumeric() || c == '.' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let rest = name.strip_prefix(&linked)?;
        let (package, function) = rest.split_once('.')?;
        (package.is_empty() || package.starts_with('_'))
            .then(|| with_receiver(&format!("{module}{}.{function}", package.replace('_', "/"))))
    })
}

/// Writes `pkg.__T_.F` as `pkg.(*T).F`.
fn with_receiver(name: &str) -> String {
    match name.split_once(".__") {
        Some((package, method)) => match method.split_once("_.") {
            Some((receiver, method)) => format!("{package}.(*{receiver}).{method}"),
            None => name.to_owned(),
        },
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_named_after_the_last_part_of_its_module() {
        let folder = tempfile::tempdir().unwrap();
        for (text, name) in [
            ("module greeter-go\n\ngo 1.25\n", "greeter-go"),
            (
                "// A comment.\nmodule example.com/team/quotas // ours\n",
                "quotas",
            ),
        ] {
            std::fs::write(folder.path().join("go.mod"), text).unwrap();
            assert_eq!(Go.name(folder.path()).unwrap(), name);
        }
        std::fs::write(folder.path().join("go.mod"), "go 1.25\n").unwrap();
        let error = Go.name(folder.path()).unwrap_err().to_string();
        assert!(error.contains("names no module"), "{error}");
    }

    #[test]
    fn names_of_the_authors_functions_are_kept_and_readable() {
        let modules = [
            "example.com/web-site/plugin/web".to_owned(),
            "example.com/web-site".into(),
        ];
        for (name, kept) in [
            ("main.setUp", Some("main.setUp")),
            (
                "example.com_web_site_internal_controller.__SiteReconciler_.Reconcile.func1",
                Some("example.com/web-site/internal/controller.(*SiteReconciler).Reconcile.func1"),
            ),
            (
                "example.com_web_site.Site.String",
                Some("example.com/web-site.Site.String"),
            ),
            ("example.com_web_sites.Site.String", None),
            ("runtime.mallocgc", None),
            ("sigs.k8s.io_controller_runtime_pkg_log.Into", None),
        ] {
            assert_eq!(authors_name(name, &modules).as_deref(), kept, "{name}");
        }
    }

    #[test]
    fn a_version_can_t_be_a_modules_name() {
        assert!(Go.refuses_name("v2").is_some());
        for name in ["v", "v2-of-it", "greeter"] {
            assert_eq!(Go.refuses_name(name), None, "{name}");
        }
    }

    #[test]
    fn another_sdk_is_a_folder_with_its_module() {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/sdk/go");
        assert!(
            Go.sdk_reference(Sdk::At(own))
                .unwrap()
                .ends_with("guests/sdk/go")
        );
        let error = Go
            .sdk_reference(Sdk::At("/no/such"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("--sdk /no/such is not Flyball's SDK")
                && error.contains("guests/sdk/go"),
            "{error}"
        );
    }
}
