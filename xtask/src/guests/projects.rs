//! The guests that `flyball build` builds: the examples in other languages than Rust, and the guests of the conformance
//! test.

use std::path::{Path, PathBuf};

use anyhow::Result;
use flyball_author::Language::{self, C, Go, JavaScript, Python, TypeScript};
use flyball_author::componentize::{WITH_HTTP, WORLD_ALONE};
use flyball_author::tools::require;
use flyball_author::{COMPONENTIZE_PY, Project};

use super::{Built, component, guests_folder};
use crate::debian::prepare_c;
use crate::prerequisites::{is_ci, node, python};
use crate::run::{command, is_fresh, output, run, say, workspace};

/// A project that `flyball build` can build. Folders are relative to the workspace.
struct Guest {
    language: Language,
    /// The name of the component.
    name: &'static str,
    folder: &'static str,
    /// The folders that the project builds on. Folders of examples are prepared first, because their packages are used.
    on: &'static [&'static str],
    /// Whether only `cargo xtask test --full` builds it.
    is_large: bool,
    /// The prefixes of the interfaces that it may import.
    interfaces: &'static [&'static str],
}

const fn guest(
    language: Language,
    name: &'static str,
    folder: &'static str,
    on: &'static [&'static str],
) -> Guest {
    Guest {
        language,
        name,
        folder,
        on,
        is_large: false,
        interfaces: &WORLD_ALONE,
    }
}

/// A cloud, which sends HTTP requests.
const fn cloud(name: &'static str, folder: &'static str) -> Guest {
    Guest {
        interfaces: &WITH_HTTP,
        ..guest(Go, name, folder, &[GO_SDK])
    }
}

const GO_SDK: &str = "guests/sdk/go";
const JS_SDK: &str = "guests/sdk/js";
const PYTHON_SDK: &str = "guests/sdk/python";
const C_SDK: &str = "guests/sdk/c";

const GUESTS: &[Guest] = &[
    guest(Go, "greeter-go", "examples/greeter-go", &[GO_SDK]),
    guest(
        TypeScript,
        "greeter-typescript",
        "examples/greeter-typescript",
        &[JS_SDK],
    ),
    guest(
        JavaScript,
        "greeter-javascript",
        "examples/greeter-javascript",
        &[JS_SDK],
    ),
    guest(
        Python,
        "greeter-python",
        "examples/greeter-python",
        &[PYTHON_SDK],
    ),
    guest(C, "greeter-c", "examples/greeter-c", &[C_SDK]),
    guest(
        Go,
        "namespace-defaults",
        "examples/namespace-defaults",
        &[GO_SDK],
    ),
    guest(TypeScript, "idle-scaler", "examples/idle-scaler", &[JS_SDK]),
    guest(JavaScript, "cert-expiry", "examples/cert-expiry", &[JS_SDK]),
    guest(
        Python,
        "secret-mirror",
        "examples/secret-mirror",
        &[PYTHON_SDK],
    ),
    guest(C, "image-pin", "examples/image-pin", &[C_SDK]),
    guest(
        Go,
        "controllerruntime-builtins",
        "examples/controllerruntime-builtins",
        &[GO_SDK],
    ),
    Guest {
        is_large: true,
        ..guest(
            Go,
            "controllerruntime-jobset",
            "examples/controllerruntime-jobset",
            &[GO_SDK],
        )
    },
    Guest {
        is_large: true,
        ..guest(
            Go,
            "controllerruntime-requests",
            "tests/guests/controllerruntime",
            &[GO_SDK],
        )
    },
    cloud("go-cloud", "tests/guests/go-cloud"),
    Guest {
        is_large: true,
        ..cloud("cloud-aws", "examples/cloud-aws")
    },
    guest(
        Go,
        "conformance-go",
        "tests/guests/go",
        &[GO_SDK, "examples/greeter-go"],
    ),
    guest(
        TypeScript,
        "conformance-typescript",
        "tests/guests/typescript",
        &[JS_SDK, "examples/greeter-typescript"],
    ),
    guest(
        JavaScript,
        "conformance-javascript",
        "tests/guests/javascript",
        &[JS_SDK, "examples/greeter-javascript"],
    ),
    guest(
        Python,
        "conformance-python",
        "tests/guests/python",
        &[PYTHON_SDK, "examples/greeter-python"],
    ),
    guest(
        C,
        "conformance-c",
        "tests/guests/c",
        &[C_SDK, "examples/greeter-c"],
    ),
];

/// Outputs of builds and tests in the folders of projects and SDKs.
const OUTPUTS: [&str; 3] = ["build", "node_modules", "package-lock.json"];

/// Builds the guests in a language.
pub fn build(language: Language) -> Result<Vec<Built>> {
    let guests = GUESTS.iter().filter(|guest| guest.language == language);
    guests.map(Guest::build).collect()
}

/// Builds the guests whose tools are installed; large ones only if all tests run. In continuous integration, no tool
/// may be missing.
pub fn build_available(full: bool) -> Result<()> {
    for guest in GUESTS.iter().filter(|guest| full || !guest.is_large) {
        let project = prepare(&workspace().join(guest.folder));
        match project.and_then(|project| project.check_tools()) {
            Err(missing) if !is_ci() => say(&format!("skipping {}: {missing:#}", guest.name)),
            _ => drop(guest.build()?),
        }
    }
    Ok(())
}

impl Guest {
    fn build(&self) -> Result<Built> {
        let built = component(self.name);
        let sources = self.sources()?;
        let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
        if !is_fresh(&built.path, &sources) {
            say(&format!("building {}", self.name));
            for example in self.on.iter().filter(|on| on.starts_with("examples/")) {
                prepare(&workspace().join(example))?;
            }
            let project = prepare(&workspace().join(self.folder))?;
            let encoded = project.build(&guests_folder().join(self.name))?;
            built.write(&encoded, self.interfaces)?;
        }
        Ok(built)
    }

    /// The files and folders that the component depends on.
    fn sources(&self) -> Result<Vec<PathBuf>> {
        let mut sources = vec![
            workspace().join("wit"),
            // The builders and templates are part of this program.
            std::env::current_exe()?,
        ];
        for folder in [self.folder].iter().chain(self.on) {
            for entry in workspace().join(folder).read_dir()? {
                let path = entry?.path();
                let is_output = OUTPUTS.iter().any(|output| path.ends_with(output));
                if !is_output && path.extension().is_none_or(|extension| extension != "wasm") {
                    sources.push(path);
                }
            }
        }
        Ok(sources)
    }
}

/// Opens a project, and prepares the tools that it needs and that may be installed here.
fn prepare(folder: &Path) -> Result<Project> {
    let mut project = Project::open(folder)?;
    match project.language {
        TypeScript | JavaScript => install_packages(folder)?,
        Python => project.environment = Some(prepare_componentize_py()?),
        C if project.check_tools().is_err() && is_ci() => prepare_c()?,
        _ => {}
    }
    Ok(project)
}

/// Installs the npm packages of a project, if its manifest has changed since.
fn install_packages(folder: &Path) -> Result<()> {
    let installed = folder.join("node_modules/.package-lock.json");
    if is_fresh(&installed, &[&folder.join("package.json")]) {
        return Ok(());
    }
    require(&node())?;
    let mut npm = command("npm");
    npm.current_dir(folder).args([
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]);
    run(&mut npm)
}

/// Returns a virtual environment with componentize-py, which is created in the target folder if it is missing.
fn prepare_componentize_py() -> Result<PathBuf> {
    let environment = guests_folder().join(format!("componentize-py-{COMPONENTIZE_PY}"));
    let tool = environment.join("bin/componentize-py");
    if output(command(&tool).arg("--version")).is_none() {
        require(&[python()])?;
        say(&format!(
            "installing componentize-py {COMPONENTIZE_PY} into {}",
            environment.display()
        ));
        run(command("python3").args(["-m", "venv"]).arg(&environment))?;
        let package = format!("componentize-py=={COMPONENTIZE_PY}");
        // setuptools builds the wheel of the SDK in a test.
        run(command(environment.join("bin/pip")).args([
            "install",
            "--quiet",
            &package,
            "setuptools>=77",
            "wheel",
        ]))?;
    }
    Ok(environment)
}
