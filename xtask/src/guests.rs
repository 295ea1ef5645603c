//! Builds the guests: the workspace's crates of type `cdylib`, the examples in other languages, and an
//! example in Rust for the target of a stock toolchain.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_author as author;
use flyball_author::COMPONENTIZE_PY;
use flyball_author::componentize::{self, WITH_HTTP, WORLD_ALONE, check};
use flyball_author::tools::require;
use serde_json::Value;

use crate::prerequisites::{is_ci, node, python};
use crate::run::{command, is_fresh, output, run, say, workspace};
use crate::toolchain::{
    STOCK_TARGET, TARGET, prepare_c, prepare_stock_toolchain, prepare_toolchain,
};

/// The stack of a guest in Rust: 128 KiB. The default of 1 MiB would be most of an instance's
/// memory.
const STACK: &str = "-Clink-arg=-zstack-size=131072";

/// An example that `flyball build` can build: the language, the name of the component and of its folder in `examples`, and the
/// folder of the SDK.
type Example = (author::Language, &'static str, &'static str);

/// The greeter of each language, and a reconciler that is written for controller-runtime.
const GREETERS: [Example; 6] = [
    (author::Language::Go, "greeter-go", "guests/sdk-go"),
    (
        author::Language::Go,
        "controllerruntime-builtins",
        "guests/sdk-go",
    ),
    (
        author::Language::TypeScript,
        "greeter-typescript",
        "guests/sdk-js",
    ),
    (
        author::Language::JavaScript,
        "greeter-javascript",
        "guests/sdk-js",
    ),
    (
        author::Language::Python,
        "greeter-python",
        "guests/sdk-python",
    ),
    (author::Language::C, "greeter-c", "guests/sdk-c"),
];
/// Examples that only `cargo xtask test --full` builds: they are large.
const LARGE: [Example; 1] = [(
    author::Language::Go,
    "controllerruntime-jobset",
    "guests/sdk-go",
)];
/// What builds and tests write into the folders of examples and SDKs.
const OUTPUTS: [&str; 3] = ["build", "node_modules", "package-lock.json"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Built {
    /// The name of the file, without `.wasm`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl Built {
    /// Writes the component if it imports only interfaces with these prefixes.
    fn write(&self, component: &[u8], prefixes: &[&str]) -> Result<()> {
        check(component, prefixes).with_context(|| self.path.display().to_string())?;
        std::fs::create_dir_all(components_folder())?;
        std::fs::write(&self.path, component)
            .with_context(|| format!("can't write {}", self.path.display()))
    }
}

/// Build the guests into target/guests/components
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The languages of the guests; all if none is named
    #[arg(value_enum)]
    pub(crate) languages: Vec<Language>,
}

/// A language that guests are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    Rust,
    /// Rust with a stock toolchain, which targets WASI
    Stock,
    Go,
    Python,
    #[value(name = "typescript")]
    TypeScript,
    #[value(name = "javascript")]
    JavaScript,
    C,
}

/// Builds the guests in these languages, in all if none is named, and prints their sizes.
pub(crate) fn build(languages: &[Language]) -> Result<()> {
    let wants = |language| languages.is_empty() || languages.contains(&language);
    let mut built = if wants(Language::Rust) {
        build_guests()?
    } else {
        Vec::new()
    };
    if wants(Language::Stock) {
        built.extend(build_stock()?);
    }
    for (language, of_greeter) in [
        (Language::Go, author::Language::Go),
        (Language::TypeScript, author::Language::TypeScript),
        (Language::JavaScript, author::Language::JavaScript),
        (Language::Python, author::Language::Python),
        (Language::C, author::Language::C),
    ] {
        if wants(language) {
            built.extend(build_greeters(&[of_greeter])?);
        }
    }
    for Built { name, path } in built {
        println!(
            "{name:16} {:>8.1} kB  {}",
            path.metadata()?.len() as f64 / 1000.0,
            path.display()
        );
    }
    Ok(())
}

/// Builds the guests in Rust in one run of cargo, so that shared dependencies are compiled once.
pub(crate) fn build_guests() -> Result<Vec<Built>> {
    let toolchain = prepare_toolchain()?;
    let packages = guest_packages()?;
    say(&format!("building {}", packages.join(", ")));
    let mut cargo = toolchain.cargo();
    cargo
        .args([
            "build",
            "--profile",
            "guest",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(guests_folder());
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", STACK);
    run(&mut cargo)?;
    let make = |package: &String| {
        let module = format!("{}.wasm", package.replace('-', "_"));
        let core = guests_folder().join(TARGET).join("guest").join(module);
        let built = component(package.strip_prefix("flyball-").unwrap_or(package));
        if !is_fresh(&built.path, &[&core]) {
            let module =
                std::fs::read(&core).with_context(|| format!("can't read {}", core.display()))?;
            let encoded = componentize::component(&module)
                .with_context(|| format!("can't encode {}", core.display()))?;
            built.write(&encoded, &WITH_HTTP)?;
        }
        Ok(built)
    };
    packages.iter().map(make).collect()
}

/// Builds the greeter for the target of stock toolchains. The component imports WASI, which the host
/// doesn't provide. Returns `None` if rustup can't add the target.
pub(crate) fn build_stock() -> Result<Option<Built>> {
    let Some(toolchain) = prepare_stock_toolchain() else {
        say(&format!(
            "skipping greeter-{STOCK_TARGET}: rustup can't add its target"
        ));
        return Ok(None);
    };
    say(&format!("building greeter-{STOCK_TARGET}"));
    let mut cargo = toolchain.cargo();
    cargo.args([
        "build",
        "--profile",
        "guest",
        "--package",
        "flyball-greeter",
        "--target",
        STOCK_TARGET,
        "--target-dir",
    ]);
    run(cargo.arg(guests_folder()))?;
    let built = component(&format!("greeter-{STOCK_TARGET}"));
    std::fs::create_dir_all(components_folder())?;
    std::fs::copy(
        guests_folder()
            .join(STOCK_TARGET)
            .join("guest/flyball_greeter.wasm"),
        &built.path,
    )?;
    Ok(Some(built))
}

/// Builds the greeters of these languages as `flyball build` does.
pub(crate) fn build_greeters(languages: &[author::Language]) -> Result<Vec<Built>> {
    let wanted = GREETERS
        .iter()
        .filter(|(language, ..)| languages.is_empty() || languages.contains(language));
    wanted.map(build_greeter).collect()
}

fn build_greeter((_, name, sdk): &Example) -> Result<Built> {
    let built = component(name);
    let example = workspace().join("examples").join(name);
    let mut sources = vec![
        workspace().join("wit"),
        // The builders and templates are part of this program.
        std::env::current_exe()?,
    ];
    for folder in [&example, &workspace().join(sdk)] {
        for entry in folder.read_dir()? {
            let path = entry?.path();
            let is_output = OUTPUTS.iter().any(|output| path.ends_with(output));
            if !is_output && path.extension().is_none_or(|extension| extension != "wasm") {
                sources.push(path);
            }
        }
    }
    let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    if !is_fresh(&built.path, &sources) {
        say(&format!("building {name}"));
        let project = prepare(&example)?;
        let encoded = project.build(&guests_folder().join(name))?;
        built.write(&encoded, &WORLD_ALONE)?;
    }
    Ok(built)
}

/// Installs the npm packages of an example, if its manifest has changed since.
fn install_packages(example: &Path) -> Result<()> {
    let installed = example.join("node_modules/.package-lock.json");
    if is_fresh(&installed, &[&example.join("package.json")]) {
        return Ok(());
    }
    require(&node())?;
    let mut npm = command("npm");
    npm.current_dir(example).args([
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]);
    run(&mut npm)
}

/// Opens an example, and prepares the tools that it needs and that may be installed here.
fn prepare(example: &Path) -> Result<author::Project> {
    let mut project = author::Project::open(example)?;
    match project.language {
        author::Language::TypeScript | author::Language::JavaScript => install_packages(example)?,
        author::Language::Python => project.environment = Some(prepare_componentize_py()?),
        author::Language::C if project.check_tools().is_err() && is_ci() => prepare_c()?,
        _ => {}
    }
    Ok(project)
}

/// Builds the greeters whose tools are installed, and the large examples too if all tests run. In continuous integration, that
/// is all of them.
pub(crate) fn build_available_greeters(full: bool) -> Result<()> {
    let large = if full { LARGE.as_slice() } else { &[] };
    for greeter in GREETERS.iter().chain(large) {
        let (_, name, _) = greeter;
        let example = workspace().join("examples").join(name);
        match prepare(&example).and_then(|project| project.check_tools()) {
            Err(missing) if !is_ci() => say(&format!("skipping {name}: {missing:#}")),
            _ => drop(build_greeter(greeter)?),
        }
    }
    Ok(())
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

/// The packages of the workspace that are guests: those with a library of type `cdylib`.
fn guest_packages() -> Result<Vec<String>> {
    let metadata = output(command("cargo").args(["metadata", "--format-version=1", "--no-deps"]));
    let metadata: Value = serde_json::from_str(&metadata.context("`cargo metadata` failed")?)?;
    let is_guest = |package: &&Value| {
        let targets = package["targets"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut types = targets
            .iter()
            .filter_map(|target| target["crate_types"].as_array())
            .flatten();
        types.any(|crate_type| crate_type == "cdylib")
    };
    let packages = metadata["packages"]
        .as_array()
        .context("`cargo metadata` names no packages")?;
    let names = packages
        .iter()
        .filter(is_guest)
        .filter_map(|package| package["name"].as_str());
    let names: Vec<String> = names.map(str::to_owned).collect();
    ensure!(!names.is_empty(), "the workspace has no guests");
    Ok(names)
}

fn guests_folder() -> PathBuf {
    workspace().join("target/guests")
}

fn components_folder() -> PathBuf {
    guests_folder().join("components")
}

fn component(name: &str) -> Built {
    Built {
        name: name.into(),
        path: Path::new(&components_folder()).join(format!("{name}.wasm")),
    }
}
