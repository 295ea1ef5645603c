//! Adding a controller is adding a folder: a copy of the tree gets one, and the host, the suites and the docs know it.

#[path = "support/copy.rs"]
mod copy;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use copy::{copy_tree, output, printed, succeeds};

const CARGO: &str = r#"[package]
name = "tidy-controller"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true
description = "tidy-controller: notes that it has seen a ConfigMap."

[lints]
workspace = true

[dependencies]
flyball-sdk.workspace = true

[lib]
crate-type = ["cdylib", "rlib"]
"#;
const MANIFEST: &str = r#"about = "Notes that it has seen a ConfigMap"

[[flags]]
name = "tidy-note"
type = "string"
default = "seen"
help = "The note of the tidy-controller"
sets = { config = "note" }

[scenarios]
plane = "workloads"
"#;
const POLICY: &str = r#"[plugins.tidy-controller]
service-account = "kube-system/tidy-controller"
[[plugins.tidy-controller.allow]]
kinds = ["v1/ConfigMap"]
verbs = ["get", "list", "watch"]
"#;
const CODE: &str = r#"//! Notes that it has seen a ConfigMap.

use flyball_sdk::prelude::*;

#[derive(View, Clone, Debug, Default)]
#[view(kind = "v1/ConfigMap")]
struct ConfigMap {
    #[view(path = "metadata", fields("name"))]
    meta: Meta,
}

struct Tidy;
export!(Tidy);

impl Controller for Tidy {
    fn describe() -> Description {
        describe("tidy-controller", "1.0.0")
            .watch(watch::<ConfigMap>().enqueue(Mapping::itself()))
            .queue("tidy")
    }

    fn reconcile(_host: &Host, _request: &Request) -> Result<Outcome, Error> {
        Ok(Outcome::Done)
    }
}
"#;
const SCENARIO: &str = r#"{"about": "A ConfigMap is created.", "steps": [
  {"create": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}}
]}
"#;

#[test]
#[ignore = "takes long: `cargo xtask test --full` runs it"]
fn a_new_folder_is_a_controller_of_the_host_the_suites_and_the_docs() -> Result<()> {
    let copy = tempfile::tempdir()?;
    copy_tree(copy.path())?;
    let own = copy.path().join("guests/controllers/tidy");
    for (file, text) in [
        ("Cargo.toml", CARGO),
        ("controller.toml", MANIFEST),
        ("policy.toml", POLICY),
        ("src/lib.rs", CODE),
        ("scenarios/created.json", SCENARIO),
    ] {
        let path = own.join(file);
        fs::create_dir_all(path.parent().context("it has one")?)?;
        fs::write(path, text)?;
    }
    let built = succeeds(copy.path(), &["cargo", "xtask", "build"])?;
    let host = built
        .lines()
        .last()
        .context("the path of the host")?
        .to_owned();

    let help = succeeds(copy.path(), &[&host, "run", "--help"])?;
    ensure!(help.contains("--tidy-note"), "{help}");
    let enabled = fails(
        copy.path(),
        &[
            &host,
            "run",
            "--controllers=tidy-controller",
            "--kubeconfig=/nowhere",
        ],
    )?;
    ensure!(enabled.contains("/nowhere"), "{enabled}");
    let unknown = fails(
        copy.path(),
        &[
            &host,
            "run",
            "--controllers=tidy-controlle",
            "--kubeconfig=/nowhere",
        ],
    )?;
    ensure!(
        unknown.contains("did you mean \"tidy-controller\"?"),
        "{unknown}"
    );
    let component = "target/guests/components/tidy-controller.wasm";
    let inspected = succeeds(copy.path(), &[&host, "inspect", component])?;
    ensure!(inspected.contains("tidy-controller"), "{inspected}");

    // Stock has no such controller, so there is no golden to compare with.
    let played = fails(
        copy.path(),
        &["cargo", "xtask", "differential", "--only", "tidy"],
    )?;
    ensure!(
        played.contains("tidy/created") && played.contains("there is no golden"),
        "{played}"
    );

    let test = ["cargo", "test", "--workspace", "--test", "controllers_page"];
    let outdated = fails(copy.path(), &test)?;
    ensure!(
        outdated.contains("docs/controllers.md is out of date"),
        "{outdated}"
    );
    Ok(())
}

/// Runs a command that fails, and returns all that it printed.
fn fails(folder: &Path, command: &[&str]) -> Result<String> {
    let output = output(folder, command)?;
    ensure!(
        !output.status.success(),
        "{command:?} succeeded: {}",
        printed(&output)
    );
    Ok(printed(&output))
}
