//! Builds the guests: the workspace's crates of type `cdylib`, one of them also for the target of a stock toolchain,
//! and [`projects`] in other languages.
//!
//! The guests that are embedded in the host and those of the demo are built in one run of cargo, the other ones in
//! another: each run always has the same features, and the demo doesn't wait for guests that only tests need.

pub mod names;
pub mod projects;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flyball_author as author;
use flyball_author::componentize::{self, WITH_HTTP, check};
use serde_json::Value;

use crate::run::{command, is_fresh, output, run, say, workspace};
use crate::toolchain::{STOCK_TARGET, TARGET, prepare_stock_toolchain, prepare_toolchain};

/// The stack of a guest in Rust: 128 KiB. The default of 1 MiB would be most of an instance's memory.
const STACK: &str = "-Clink-arg=-zstack-size=131072";

/// How guests in Rust are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// For tests: built quickly.
    Dev,
    /// For installation: optimised.
    Release,
}

impl Profile {
    /// The name of a profile in Cargo.toml.
    fn name(self) -> &'static str {
        match self {
            Self::Dev => "guest-dev",
            Self::Release => "guest",
        }
    }

    /// The folder of the built guests.
    pub fn folder(self) -> PathBuf {
        match self {
            Self::Dev => guests_folder(),
            Self::Release => guests_folder().join("release"),
        }
    }

    /// The folder of the components.
    pub fn components(self) -> PathBuf {
        self.folder().join("components")
    }

    fn component(self, name: &str) -> Built {
        Built {
            name: name.into(),
            path: self.components().join(format!("{name}.wasm")),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The name of the file, without `.wasm`.
    pub name: String,
    pub path: PathBuf,
}

impl Built {
    /// Writes the component if it imports only interfaces with these prefixes.
    fn write(&self, component: &[u8], prefixes: &[&str]) -> Result<()> {
        check(component, prefixes).with_context(|| self.path.display().to_string())?;
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&self.path, component)
            .with_context(|| format!("can't write {}", self.path.display()))
    }
}

/// Build the guests into target/guests/components
#[derive(clap::Args)]
pub struct Arguments {
    /// The languages of the guests; all if none is named
    #[arg(value_enum)]
    pub languages: Vec<Language>,
}

/// A language that guests are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
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
pub fn build(languages: &[Language]) -> Result<()> {
    let wants = |language| languages.is_empty() || languages.contains(&language);
    let mut built = Vec::new();
    if wants(Language::Rust) {
        built.extend(build_for_host(Profile::Dev)?);
        built.extend(build_others(Profile::Dev)?);
    }
    if wants(Language::Stock) {
        built.extend(build_stock()?);
    }
    for (language, of_project) in [
        (Language::Go, author::Language::Go),
        (Language::TypeScript, author::Language::TypeScript),
        (Language::JavaScript, author::Language::JavaScript),
        (Language::Python, author::Language::Python),
        (Language::C, author::Language::C),
    ] {
        if wants(language) {
            built.extend(projects::build(of_project)?);
        }
    }
    for Built { name, path } in built {
        println!(
            "{name:26} {:>8.1} kB  {}",
            path.metadata()?.len() as f64 / 1000.0,
            path.display()
        );
    }
    Ok(())
}

/// Builds the guests that are embedded in the host, and those of the demo.
pub fn build_for_host(profile: Profile) -> Result<Vec<Built>> {
    build_packages(profile, &guest_packages(names::is_for_host)?)
}

/// Builds the other guests in Rust: examples, and those of tests and benchmarks.
pub fn build_others(profile: Profile) -> Result<Vec<Built>> {
    build_packages(profile, &guest_packages(|name| !names::is_for_host(name))?)
}

/// Builds guests of this workspace in one run of cargo, so that shared dependencies are compiled once.
fn build_packages(profile: Profile, packages: &[String]) -> Result<Vec<Built>> {
    let modules = build_modules(&workspace(), &guests_folder(), profile, packages)?;
    let make = |(package, core): (&String, PathBuf)| {
        let built = profile.component(component_name(package));
        if !is_fresh(&built.path, &[&core]) {
            built.write(&encoded(&core)?, &WITH_HTTP)?;
        }
        Ok(built)
    };
    packages.iter().zip(modules).map(make).collect()
}

/// Builds guests of a copy of this workspace, for tests. Returns their components, in the order of the packages.
///
/// `target` is the folder of the build. A test that keeps it does not compile the dependencies again.
pub fn build_copy(copy: &Path, target: &Path, packages: &[String]) -> Result<Vec<Vec<u8>>> {
    let modules = build_modules(copy, target, Profile::Dev, packages)?;
    modules.iter().map(|core| encoded(core)).collect()
}

/// Compiles guests of a workspace. Returns the files of their modules.
fn build_modules(
    workspace: &Path,
    target: &Path,
    profile: Profile,
    packages: &[String],
) -> Result<Vec<PathBuf>> {
    let toolchain = prepare_toolchain(TARGET)?;
    say(&format!("building {}", packages.join(", ")));
    let mut cargo = toolchain.cargo();
    cargo
        .current_dir(workspace)
        .args([
            "build",
            "--profile",
            profile.name(),
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(target);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", STACK);
    // Another run of cargo may show its progress on the same terminal.
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "never");
    run(&mut cargo)?;
    let module = |package: &String| {
        let module = format!("{}.wasm", package.replace('-', "_"));
        target.join(TARGET).join(profile.name()).join(module)
    };
    Ok(packages.iter().map(module).collect())
}

/// Encodes a module as a component.
fn encoded(core: &Path) -> Result<Vec<u8>> {
    let module = std::fs::read(core).with_context(|| format!("can't read {}", core.display()))?;
    componentize::component(&module).with_context(|| format!("can't encode {}", core.display()))
}

/// Builds the greeter for the target of stock toolchains. The component imports WASI, which the host doesn't provide.
/// Returns `None` if rustup can't add the target.
pub fn build_stock() -> Result<Option<Built>> {
    let Some(toolchain) = prepare_stock_toolchain() else {
        say(&format!(
            "skipping greeter-{STOCK_TARGET}: rustup can't add its target"
        ));
        return Ok(None);
    };
    say(&format!("building greeter-{STOCK_TARGET}"));
    let profile = Profile::Dev;
    let mut cargo = toolchain.cargo();
    cargo.args([
        "build",
        "--profile",
        profile.name(),
        "--package",
        "flyball-greeter",
        "--target",
        STOCK_TARGET,
        "--target-dir",
    ]);
    run(cargo.arg(guests_folder()))?;
    let built = component(&format!("greeter-{STOCK_TARGET}"));
    std::fs::create_dir_all(profile.components())?;
    std::fs::copy(
        guests_folder()
            .join(STOCK_TARGET)
            .join(profile.name())
            .join("flyball_greeter.wasm"),
        &built.path,
    )?;
    Ok(Some(built))
}

/// The name of a package's component.
fn component_name(package: &str) -> &str {
    package.strip_prefix("flyball-").unwrap_or(package)
}

/// The packages of the workspace that are guests, with a library of type `cdylib`, and whose name as a component is
/// wanted.
fn guest_packages(is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
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
        .filter_map(|package| package["name"].as_str())
        .filter(|package| is_wanted(component_name(package)));
    let names: Vec<String> = names.map(str::to_owned).collect();
    ensure!(!names.is_empty(), "the workspace has no guests");
    Ok(names)
}

fn guests_folder() -> PathBuf {
    workspace().join("target/guests")
}

/// The component of a guest that all profiles share: it is in another language, or for another target.
fn component(name: &str) -> Built {
    Profile::Dev.component(name)
}
