//! `flyball build`: a project in Rust, as a component. Cargo compiles it for a WebAssembly target that is installed; of a core
//! module a component is made here, and what comes out is tried as the host would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use wit_component::ComponentEncoder;

use super::trial::trial;

/// What guests are compiled for, the best first: the second one's guests import WASI, which the host answers with nothing.
const TARGETS: [&str; 2] = ["wasm32-unknown-unknown", "wasm32-wasip2"];
/// The toolchain that `cargo xtask` links where rustup can't add a target.
const LINKED: &str = "rust-wasm";

/// Builds the project in `dir`.
pub(super) async fn run(
    dir: &Path,
    output: Option<PathBuf>,
    toolchain: Option<&str>,
) -> anyhow::Result<String> {
    let manifest = dir.join("Cargo.toml");
    ensure!(
        manifest.is_file(),
        "there is no project in {}: it has no Cargo.toml; name its folder, or make one with `flyball new`",
        dir.display()
    );
    let (toolchain, target) = choose(dir, toolchain)?;
    let module = compile(dir, toolchain, target)?;
    let bytes = std::fs::read(&module.path)
        .with_context(|| format!("can't read {}", module.path.display()))?;
    let component = component(&bytes)
        .with_context(|| format!("can't make a component of {}", module.path.display()))?;
    let output = output.unwrap_or_else(|| dir.join(format!("{}.wasm", module.name)));
    std::fs::write(&output, &component)
        .with_context(|| format!("can't write {}", output.display()))?;
    let description = trial(&output).await?.description;
    Ok(format!(
        "built {} {}: {}, {} bytes\n",
        description.name,
        description.version,
        output.display(),
        component.len()
    ))
}

/// A toolchain, none for the one in use, and a target that it has.
fn choose<'a>(
    dir: &Path,
    toolchain: Option<&'a str>,
) -> anyhow::Result<(Option<&'a str>, &'static str)> {
    let toolchains: &[Option<&str>] = if toolchain.is_some() {
        &[toolchain]
    } else {
        &[None, Some(LINKED)]
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
        toolchain.map_or("the Rust toolchain in use".into(), |name| format!(
            "the toolchain {name}"
        )),
        TARGETS[0]
    )
}

/// Whether the standard library of a toolchain is there for a target. A toolchain that is not there has none.
fn has_target(dir: &Path, toolchain: Option<&str>, target: &str) -> anyhow::Result<bool> {
    let mut rustc = tool("rustc", toolchain, dir);
    rustc.args(["--print", "target-libdir", "--target", target]);
    let answer = rustc
        .output()
        .context("can't run `rustc`: install Rust with rustup")?;
    let folder = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    Ok(answer.status.success()
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

/// What cargo compiled.
struct Module {
    /// The package's name.
    name: String,
    path: PathBuf,
}

/// A message of cargo's about what it made.
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
        "can't build {}: cargo failed, and says why above",
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
            "{} is no plugin: its Cargo.toml needs `crate-type = [\"cdylib\", \"rlib\"]` under `[lib]`",
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
        toml::from_str(&text).with_context(|| format!("{} names no package", path.display()))?;
    Ok(manifest.package.name)
}

/// The component of a core module; a component as it is.
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
    async fn a_folder_without_a_project_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = run(folder.path(), None, None)
            .await
            .expect_err("there is nothing")
            .to_string();
        assert!(
            error.contains("has no Cargo.toml") && error.contains("flyball new"),
            "{error}"
        );
    }

    #[test]
    fn a_toolchain_without_a_target_is_told_with_what_installs_it() {
        let error = choose(Path::new("."), Some("no-such-toolchain"))
            .expect_err("it is not there")
            .to_string();
        assert!(
            error
                .contains("rustup target add --toolchain no-such-toolchain wasm32-unknown-unknown"),
            "{error}"
        );
    }
}
