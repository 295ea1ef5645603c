//! Projects in Rust. Cargo compiles them for an installed WebAssembly target; a core module is then encoded as a
//! component.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::json;

use super::{Sdk, Support, VENDORED, ensure_built, sdk_folder};
use crate::embedded::{File, RUST_CLOUD_TEMPLATE, RUST_SDK, RUST_TEMPLATE};
use crate::tools::Tool;
use crate::{Project, componentize};

/// The compilation targets, in order of preference. Guests of the second one import WASI, for which the host has only
/// stubs.
const TARGETS: [&str; 2] = ["wasm32-unknown-unknown", "wasm32-wasip2"];
/// The variable that names the toolchain to build projects with, for those that name none.
pub const RUST_TOOLCHAIN: &str = "FLYBALL_RUST_TOOLCHAIN";
const SDK: &str = "guests/sdk/rust";
const CLOUD_SDK: &str = "guests/sdk/rust-cloud";
/// The crates of the SDK, in the workspace and in a vendored copy, which has the same folders.
const CRATES: [&str; 6] = [
    SDK,
    "guests/sdk/rust/macros",
    CLOUD_SDK,
    "guests/sdk/rust-kube",
    "host/recording",
    "host/types",
];
/// The example that prints the project's custom resources.
const DEFINITIONS: &str = "examples/crd.rs";
/// Valid names of plugins that cargo refuses as names of crates, or that dependencies of a new project have.
const RESERVED: [&str; 9] = [
    "test",
    "core",
    "std",
    "alloc",
    "proc-macro",
    "flyball-sdk",
    "flyball-cloud",
    "schemars",
    "serde",
];

pub(super) struct Rust;

impl Support for Rust {
    fn manifest(&self) -> &'static str {
        "Cargo.toml"
    }

    fn name(&self, dir: &Path) -> Result<String> {
        Ok(Manifest::read(dir)?.package.name)
    }

    fn work(&self) -> &'static str {
        "target/flyball"
    }

    fn required_tools(&self, _project: &Project) -> Vec<Tool> {
        let advice = "compiles Rust; install it with rustup";
        ["cargo", "rustc"]
            .map(|program| Tool::new(&[program, "--version"], advice))
            .into()
    }

    fn compile(&self, project: &Project, _wit: &Path, _work: &Path) -> Result<Vec<u8>> {
        let dir = &project.dir;
        let by_default = std::env::var(RUST_TOOLCHAIN).ok();
        let by_default = by_default.as_deref().filter(|name| !name.is_empty());
        let toolchain = project.toolchain.as_deref().or(by_default);
        let path = compile(dir, toolchain, choose(dir, toolchain)?)?;
        let module =
            std::fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
        componentize::component(&module)
            .with_context(|| format!("can't encode {} as a component", path.display()))
    }

    fn definitions(&self, project: &Project) -> Result<Option<Vec<u8>>> {
        if !project.dir.join(DEFINITIONS).is_file() {
            return Ok(None);
        }
        project.check_tools()?;
        let manifest = Manifest::read(&project.dir)?;
        let mut cargo = tool("cargo", project.toolchain.as_deref(), &project.dir);
        cargo.args(["run", "--quiet", "--example", manifest.definitions()]);
        let printed = cargo
            .stderr(Stdio::inherit())
            .output()
            .context("can't run `cargo`: install Rust with rustup")?;
        ensure_built(printed.status, &project.dir, "cargo")?;
        Ok(Some(printed.stdout))
    }

    fn template(&self) -> &'static [File] {
        &RUST_TEMPLATE
    }

    fn cloud_template(&self) -> Option<&'static [File]> {
        Some(&RUST_CLOUD_TEMPLATE)
    }

    fn cloud_sdk_reference(&self, sdk: Sdk) -> Result<String> {
        dependency(sdk, "rust-cloud", CLOUD_SDK)
    }

    fn sdk(&self) -> &'static [File] {
        &RUST_SDK
    }

    fn vendored(&self, path: &str, content: &'static [u8]) -> Result<Cow<'static, [u8]>> {
        Ok(match path {
            "Cargo.toml" => Cow::Owned(sdk_workspace(content)?.into_bytes()),
            _ => Cow::Borrowed(content),
        })
    }

    fn sdk_reference(&self, sdk: Sdk) -> Result<String> {
        dependency(sdk, "rust", SDK)
    }

    fn refuses_name(&self, name: &str) -> Option<&'static str> {
        (RESERVED.contains(&name) || is_keyword(name)).then_some("Rust or cargo reserves it")
    }

    fn test_command(&self) -> &'static str {
        "cargo test"
    }
}

/// Returns the manifest of a workspace of the SDK alone, from that of Flyball's workspace.
fn sdk_workspace(manifest: &[u8]) -> Result<String> {
    let manifest: toml::Table = std::str::from_utf8(manifest)?.parse()?;
    let of = |name: &str| {
        let found = manifest["workspace"].get(name).cloned();
        found.with_context(|| format!("the workspace has no {name}"))
    };
    let manifests: Vec<&str> = CRATES
        .iter()
        .filter_map(|folder| {
            let path = format!("{folder}/Cargo.toml");
            let (_, content) = RUST_SDK.iter().find(|(file, _)| *file == path)?;
            std::str::from_utf8(content).ok()
        })
        .collect();
    ensure!(
        manifests.len() == CRATES.len(),
        "the binary lacks a crate of the SDK"
    );
    let is_used = |name: &str| {
        let forms = [
            format!("{name}.workspace"),
            format!("{name} = {{ workspace"),
        ];
        let mut lines = manifests.iter().flat_map(|text| text.lines());
        lines.any(|line| forms.iter().any(|form| line.starts_with(form)))
    };
    let mut dependencies = of("dependencies")?;
    if let Some(table) = dependencies.as_table_mut() {
        table.retain(|name, _| is_used(name));
    }
    let mut workspace = toml::Table::new();
    workspace.insert("resolver".into(), of("resolver")?);
    workspace.insert(
        "members".into(),
        CRATES.map(toml::Value::from).to_vec().into(),
    );
    workspace.insert("package".into(), of("package")?);
    workspace.insert("lints".into(), of("lints")?);
    workspace.insert("dependencies".into(), dependencies);
    let root = toml::Table::from_iter([("workspace".to_owned(), workspace.into())]);
    Ok(toml::to_string(&root)?)
}

/// Returns the keys of the table of a crate of the SDK as a dependency in `Cargo.toml`. `folder` is the crate's folder beside
/// the SDK's, and `place` its folder in a checkout.
fn dependency(sdk: Sdk, folder: &str, place: &str) -> Result<String> {
    let is_url = |text: &str| {
        ["https://", "http://", "ssh://", "git://", "file://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
    };
    // The SDK has the same version as this program.
    let of = |key: &str, place: &str| {
        let version = env!("CARGO_PKG_VERSION");
        format!("version = \"{version}\"\n{key} = {}", json!(place))
    };
    let given = match sdk {
        Sdk::Vendored => return Ok(of("path", &format!("{VENDORED}/{place}"))),
        Sdk::At(url) if is_url(url) => return Ok(of("git", url)),
        Sdk::At(path) => path,
    };
    let path = sdk_folder(given, "Cargo.toml", "name = \"flyball-sdk\"", SDK)?;
    let path = Path::new(&path).with_file_name(folder);
    Ok(of("path", &path.display().to_string()))
}

/// Whether the name is a keyword of Rust, which no crate may have as its name.
fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern false final \
                            fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static \
                            struct super trait true try type typeof unsafe unsized use virtual where while yield";
    KEYWORDS.split_whitespace().any(|keyword| keyword == name)
}

/// Chooses a target that a toolchain has; no name stands for the active toolchain.
fn choose(dir: &Path, toolchain: Option<&str>) -> Result<&'static str> {
    for target in TARGETS {
        if has_target(dir, toolchain, target)? {
            return Ok(target);
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
fn has_target(dir: &Path, toolchain: Option<&str>, target: &str) -> Result<bool> {
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

/// Compiles the project. Returns the path of the core module or component.
fn compile(dir: &Path, toolchain: Option<&str>, target: &str) -> Result<PathBuf> {
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
    ensure_built(built.status, dir, "cargo")?;
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
    path.with_context(|| {
        format!(
            "{} is not a plugin: its Cargo.toml needs `crate-type = [\"cdylib\", \"rlib\"]` under `[lib]`",
            dir.display()
        )
    })
}

/// A project's `Cargo.toml`.
#[derive(Deserialize)]
struct Manifest {
    package: Package,
    /// The examples that the manifest names. Others have the names of their files.
    #[serde(default)]
    example: Vec<Example>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
}

#[derive(Deserialize)]
struct Example {
    name: String,
    path: Option<String>,
}

impl Manifest {
    fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("Cargo.toml");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("can't read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} has no package name", path.display()))
    }

    /// The name of the example that prints the custom resources. In a workspace, the examples of several projects need
    /// different names.
    fn definitions(&self) -> &str {
        let mut named = self.example.iter();
        let named = named.find(|example| example.path.as_deref() == Some(DEFINITIONS));
        named.map_or("crd", |example| &example.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_is_vendored_or_a_folder_or_a_repository() {
        assert_eq!(
            dependency(Sdk::Vendored, "rust", SDK).unwrap(),
            concat!(
                "version = \"",
                env!("CARGO_PKG_VERSION"),
                "\"\npath = \"flyball-sdk/guests/sdk/rust\""
            )
        );
        assert_eq!(
            dependency(Sdk::At("https://x/y"), "rust", SDK).unwrap(),
            concat!(
                "version = \"",
                env!("CARGO_PKG_VERSION"),
                "\"\ngit = \"https://x/y\""
            )
        );
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/sdk/rust");
        let found = dependency(Sdk::At(own), "rust", SDK).unwrap();
        assert!(found.ends_with("guests/sdk/rust\""), "{found}");
        let error = dependency(Sdk::At("/no/such"), "rust", SDK)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("--sdk /no/such is not Flyball's SDK"),
            "{error}"
        );
    }

    #[test]
    fn the_workspace_of_the_vendored_sdk_has_what_its_crates_inherit() {
        let (path, content) = RUST_SDK
            .iter()
            .find(|(path, _)| *path == "Cargo.toml")
            .unwrap();
        let manifest = Rust.vendored(path, content).unwrap();
        let manifest: toml::Table = std::str::from_utf8(&manifest).unwrap().parse().unwrap();
        let dependencies = manifest["workspace"]["dependencies"].as_table().unwrap();
        for name in ["flyball-types", "flyball-sdk-macros", "serde"] {
            assert!(dependencies.contains_key(name), "{name}");
        }
        assert!(!dependencies.contains_key("wasmtime"));
    }

    #[test]
    fn the_example_with_the_custom_resources_may_have_a_name_of_its_own() {
        let name = |examples: &str| {
            let text = format!("[package]\nname = \"a\"\n{examples}");
            toml::from_str::<Manifest>(&text)
                .unwrap()
                .definitions()
                .to_owned()
        };
        let other = "[[example]]\nname = \"other\"\n";
        let own = "[[example]]\nname = \"a-crd\"\npath = \"examples/crd.rs\"\n";
        assert_eq!(name(""), "crd");
        assert_eq!(name(other), "crd");
        assert_eq!(name(&format!("{other}{own}")), "a-crd");
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
