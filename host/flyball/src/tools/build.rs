//! `flyball build`: builds a Rust project into a component. Cargo compiles it for an installed WebAssembly target. A
//! core module is then encoded as a component, and the component is validated as the host would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use flyball_manager::policy::Policy;
use serde::Deserialize;
use wit_component::ComponentEncoder;

use super::load::load;

/// The compilation targets, in order of preference. Guests of the second one import WASI, for which the host has only
/// stubs.
const TARGETS: [&str; 2] = ["wasm32-unknown-unknown", "wasm32-wasip2"];
/// The toolchain that `cargo xtask` links if rustup can't add a target.
const LINKED_TOOLCHAIN: &str = "rust-wasm";

/// Builds the project in `dir`.
pub(super) async fn run(
    dir: &Path,
    output: Option<PathBuf>,
    toolchain: Option<&str>,
) -> anyhow::Result<String> {
    let manifest = dir.join("Cargo.toml");
    ensure!(
        manifest.is_file(),
        "{} is not a project: it has no Cargo.toml; name another folder, or create a project with `flyball new`",
        dir.display()
    );
    let (toolchain, target) = choose(dir, toolchain)?;
    let module = compile(dir, toolchain, target)?;
    let bytes = std::fs::read(&module.path)
        .with_context(|| format!("can't read {}", module.path.display()))?;
    let component = component(&bytes)
        .with_context(|| format!("can't encode {} as a component", module.path.display()))?;
    let output = output.unwrap_or_else(|| dir.join(format!("{}.wasm", module.name)));
    std::fs::write(&output, &component)
        .with_context(|| format!("can't write {}", output.display()))?;
    let description = load(&output, &Policy::default()).await?.description;
    Ok(format!(
        "built {} {}: {}, {} bytes\n",
        description.name,
        description.version,
        output.display(),
        component.len()
    ))
}

/// Chooses a toolchain (none is the active one) and a target that it has.
fn choose<'a>(
    dir: &Path,
    toolchain: Option<&'a str>,
) -> anyhow::Result<(Option<&'a str>, &'static str)> {
    let toolchains: &[Option<&str>] = if toolchain.is_some() {
        &[toolchain]
    } else {
        &[None, Some(LINKED_TOOLCHAIN)]
    };
    for &toolchain in toolchains {
        for target in TARGETS {
            if has_target(dir, toolchain, target)? {
                return Ok((toolchain, target));
            }
        }
    }
    let of = toolchain
        .map(|name| format!(" --toolchain {name}"))
        .unwrap_or_default();
    bail!(
        "can't build {}: {} has no target for WebAssembly; install it with `rustup target add{of} {}`",
        dir.display(),
        toolchain.map_or("the active Rust toolchain".into(), |name| format!(
            "the toolchain {name}"
        )),
        TARGETS[0]
    )
}

/// Whether a toolchain is installed with the standard library for a target.
fn has_target(dir: &Path, toolchain: Option<&str>, target: &str) -> anyhow::Result<bool> {
    let mut rustc = tool("rustc", toolchain, dir);
    rustc.args(["--print", "target-libdir", "--target", target]);
    let output = rustc
        .output()
        .context("can't run `rustc`: install Rust with rustup")?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok(output.status.success()
        && folder
            .read_dir()
            .is_ok_and(|mut files| files.next().is_some()))
}

fn tool(name: &str, toolchain: Option<&str>, dir: &Path) -> Command {
    let mut command = Command::new(name);
    command
        .args(toolchain.map(|name| format!("+{name}")))
        .current_dir(dir);
    command
}

/// The core module or component that cargo compiled.
struct Module {
    /// The package's name.
    name: String,
    path: PathBuf,
}

/// A message of cargo about an artifact.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Default, Deserialize)]
struct Target {
    #[serde(default)]
    crate_types: Vec<String>,
}

fn compile(dir: &Path, toolchain: Option<&str>, target: &str) -> anyhow::Result<Module> {
    let mut cargo = tool("cargo", toolchain, dir);
    cargo.args([
        "build",
        "--release",
        "--message-format=json-render-diagnostics",
        "--target",
        target,
    ]);
    let built = cargo
        .stderr(Stdio::inherit())
        .output()
        .context("can't run `cargo`: install Rust with rustup")?;
    ensure!(
        built.status.success(),
        "can't build {}: cargo failed with the errors above",
        dir.display()
    );
    let text = String::from_utf8_lossy(&built.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let own = dir.join("Cargo.toml").canonicalize()?;
    let is_guest = |message: &Message| {
        message.reason == "compiler-artifact"
            && message.manifest_path == own
            && message
                .target
                .crate_types
                .iter()
                .any(|crate_type| crate_type == "cdylib")
    };
    let mut files = messages
        .filter(is_guest)
        .flat_map(|message| message.filenames);
    let path = files.rfind(|file| {
        file.extension()
            .is_some_and(|extension| extension == "wasm")
    });
    let path = path.with_context(|| {
        format!(
            "{} is not a plugin: its Cargo.toml needs `crate-type = [\"cdylib\", \"rlib\"]` under `[lib]`",
            dir.display()
        )
    })?;
    Ok(Module {
        name: package_name(dir)?,
        path,
    })
}

fn package_name(dir: &Path) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    struct Manifest {
        package: Package,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
    }
    let path = dir.join("Cargo.toml");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let manifest: Manifest =
        toml::from_str(&text).with_context(|| format!("{} has no package name", path.display()))?;
    Ok(manifest.package.name)
}

/// Encodes a core module as a component. Returns a component unchanged.
fn component(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    if bytes.get(4..8) != Some(&[1, 0, 0, 0]) {
        return Ok(bytes.to_owned());
    }
    let mut encoder = ComponentEncoder::default();
    encoder.validate(true).module(bytes)?.encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_without_a_project_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = run(folder.path(), None, None)
            .await
            .expect_err("the folder is empty")
            .to_string();
        assert!(
            error.contains("has no Cargo.toml") && error.contains("flyball new"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_target_is_an_error_that_says_how_to_install_it() {
        let error = choose(Path::new("."), Some("no-such-toolchain"))
            .expect_err("the toolchain does not exist")
            .to_string();
        assert!(
            error
                .contains("rustup target add --toolchain no-such-toolchain wasm32-unknown-unknown"),
            "{error}"
        );
    }
}
