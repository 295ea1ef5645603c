//! Projects in TypeScript and JavaScript, from an empty folder to a running plugin, with the tools that npm installs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flyball_cluster_tests::{Cluster, finish, host, host_output, log_of, until};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, PostParams};
use serde_json::json;

/// The languages, and the files that hold the controller of a new project.
const LANGUAGES: [(&str, &str); 2] = [
    ("typescript", "src/controller.ts"),
    ("javascript", "src/controller.js"),
];

#[test]
fn a_new_project_passes_its_tests_and_builds() -> Result<()> {
    for (language, controller) in LANGUAGES {
        let folder = tempfile::tempdir()?;
        let dir = folder.path().join("quotas");
        create(language, &dir)?;
        npm(&dir, &["test"])?;
        let built = host_output(&["build", text(&dir)])?;
        ensure!(built.starts_with("built quotas 0.1.0: "), "{built}");
        let component = dir.join("quotas.wasm");
        let asked = host_output(&["policy", text(&component)])?;
        ensure!(asked.contains("v1/ConfigMap"), "{asked}");

        // A mistake is an error with its place.
        let path = dir.join(controller);
        let code = std::fs::read_to_string(&path)?;
        std::fs::write(&path, format!("{code}\nimport \"no-such-module\";\n"))?;
        let error = build_error(&dir)?;
        ensure!(
            error.contains(controller) && error.contains("no-such-module"),
            "{error}"
        );
        std::fs::write(&path, format!("{code}\nconsole.log(\"too early\");\n"))?;
        let error = build_error(&dir)?;
        ensure!(
            error.contains("the host's functions don't work while modules are loaded"),
            "{error}"
        );
        std::fs::write(
            &path,
            format!("{code}\nexport const one: number = \"one\";\n"),
        )?;
        let error = build_error(&dir)?;
        ensure!(error.contains(controller), "{error}");
    }
    Ok(())
}

#[test]
fn a_project_without_its_packages_names_each_missing_tool() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("quotas");
    host_output(&["new", "quotas", "--lang", "typescript", "--dir", text(&dir)])?;
    let error = build_error(&dir)?;
    for tool in ["tsc", "esbuild", "componentize-qjs"] {
        ensure!(
            error.contains(&format!("{tool} (not installed)")),
            "{error}"
        );
    }
    ensure!(error.contains("npm install"), "{error}");
    Ok(())
}

#[test]
fn a_project_can_use_the_package_of_the_sdk_in_place_of_the_copy() -> Result<()> {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/sdk/js");
    let folder = tempfile::tempdir()?;
    let packed = npm(&sdk, &["pack", "--pack-destination", text(folder.path())])?;
    let file = packed.lines().last().context("`npm pack` names no file")?;
    let package = folder.path().join(file);
    let dir = folder.path().join("quotas");
    create("javascript", &dir)?;
    std::fs::remove_dir_all(dir.join("flyball-sdk"))?;
    npm(&dir, &[&INSTALL[..], &[text(&package)]].concat())?;
    npm(&dir, &["test"])?;
    host_output(&["build", text(&dir)])?;
    Ok(())
}

/// A controller that greets each namespace, and fails for some. The comments mark the lines that the log must name.
const FAULTY: &str = r#"
import { Mapping, describe, watch } from "@flyball/sdk";

interface Sized { size: number }

function sizeOf(spec: Sized | undefined): number {
  return spec!.size; // reads the field
}

export const controller = {
  describe: () =>
    describe("quotas", "0.1.0")
      .watch(watch("v1/Namespace").enqueue(Mapping.itself()))
      .queue("quotas", { maxRetries: 1 })
      .permission("v1/ConfigMap", "create"),

  reconcile(host: any, { key }: any) {
    console.warn("reconciling %s", key.name, { nested: ["ü"] });
    if (key.name === "null") sizeOf(undefined); // calls the function
    if (key.name === "cause") throw new Error("outer", { cause: new RangeError("inner") });
    if (key.name === "argument") host.update("v1/ConfigMap", { metadata: { name: "x" } }, {});
    const now = new Date();
    host.create("v1/ConfigMap", { metadata: { namespace: key.name, name: "made" }, data: { year: String(now.getFullYear()) } });
  },
};
"#;

#[tokio::test]
async fn an_exception_is_logged_with_its_place_and_the_next_call_works() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let dir = folder.path().join("quotas");
    create("typescript", &dir)?;
    std::fs::write(dir.join("src/controller.ts"), FAULTY)?;
    std::fs::remove_dir_all(dir.join("test"))?;
    host_output(&["build", text(&dir)])?;
    let cluster = Cluster::for_plugins().await?;
    let plugins = cluster.folder_with("plugins", &[dir.join("quotas.wasm")])?;
    let args = [
        "--controllers=".to_owned(),
        "--trust-plugins".into(),
        format!("--plugin-dir={}", plugins.display()),
    ];
    let host = cluster.spawn_host("host", cluster.plane.kubeconfig_path(), &args)?;
    let result = async {
        // The last one is reconciled after the exceptions.
        let namespaces = Api::<Namespace>::all(cluster.client.clone());
        for name in ["null", "cause", "argument", "works"] {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
            namespaces
                .create(&PostParams::default(), &namespace)
                .await?;
        }
        let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), "works");
        let map = until("the next call works", async || {
            let found = maps.get_opt("made").await?;
            Ok(found.ok_or_else(|| "there is no ConfigMap".to_owned()))
        })
        .await?;
        let year = map.data.unwrap_or_default().remove("year");
        ensure!(year.as_deref() > Some("2024"), "the clock says {year:?}");
        let place = |mark: &str| {
            let line = FAULTY.lines().position(|line| line.contains(mark));
            line.map(|at| format!("src/controller.ts:{}:", at + 1))
                .with_context(|| format!("the controller has no line {mark}"))
        };
        let expected = [
            "uncaught exception in reconcile: TypeError: cannot read property 'size' of undefined"
                .to_owned(),
            format!("at sizeOf ({}", place("// reads the field")?),
            format!("at reconcile ({}", place("// calls the function")?),
            "Error: outer".into(),
            "caused by RangeError: inner".into(),
            "writer.update: resourceVersion is undefined, not a text".into(),
            "reconciling works { nested: [".into(),
        ];
        until(
            "the log names the exceptions and their places",
            async || {
                let log = log_of(&host)?;
                let missing: Vec<_> = expected
                    .iter()
                    .filter(|text| !log.contains(*text))
                    .collect();
                Ok(if missing.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{missing:?} of {log}"))
                })
            },
        )
        .await
    };
    let result = result.await;
    finish(cluster, [host], result).await
}

/// How packages are installed. Their scripts aren't needed.
const INSTALL: [&str; 4] = ["install", "--ignore-scripts", "--no-audit", "--no-fund"];

/// Creates a project, and installs its packages.
fn create(language: &str, dir: &Path) -> Result<()> {
    host_output(&["new", "quotas", "--lang", language, "--dir", text(dir)])?;
    npm(dir, &INSTALL)?;
    Ok(())
}

/// Runs npm, and returns its standard output.
fn npm(dir: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("npm")
        // The tests of a project ask it for their cluster.
        .env("FLYBALL", host()?)
        .args(args)
        .current_dir(dir)
        .output()
        .context("can't run `npm`: install Node.js")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "`npm {}` failed in {}:\n{said}{}",
        args.join(" "),
        dir.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}

/// Returns what `flyball build` prints when it fails.
fn build_error(dir: &Path) -> Result<String> {
    let output = Command::new(host()?).arg("build").arg(dir).output()?;
    ensure!(!output.status.success(), "{} can be built", dir.display());
    let both = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&both).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str()
        .expect("the temporary folder's path is Unicode")
}
