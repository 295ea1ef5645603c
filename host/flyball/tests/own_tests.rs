//! Runs the tests of the SDKs and of the examples, with their languages' own tools. They find the cluster in memory by
//! the variable `FLYBALL`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use flyball_author::COMPONENTIZE_PY;
use flyball_controlplane::skip;

/// The folders, and the commands that must succeed there.
const CHECKS: [(&str, &[&str]); 31] = [
    ("guests/sdk/go", &["go", "vet", "./..."]),
    ("guests/sdk/go", &["go", "test", "./..."]),
    ("guests/sdk/go/crdgen", &["go", "vet", "./..."]),
    ("examples/greeter-go", &["go", "vet", "./..."]),
    ("examples/greeter-go", &["go", "test", "./..."]),
    ("guests/sdk/go/controllerruntime", &["go", "generate", "."]),
    ("guests/sdk/go/controllerruntime", &["go", "test", "./..."]),
    (
        "examples/controllerruntime-builtins",
        &["go", "vet", "./..."],
    ),
    ("guests/sdk/go/cloudprovider", &["go", "vet", "./..."]),
    ("guests/sdk/go/cloudprovider", &["go", "test", "./..."]),
    ("guests/sdk/js", INSTALL),
    ("guests/sdk/js", &["npm", "run", "types"]),
    ("guests/sdk/js", &["npm", "test"]),
    ("examples/greeter-typescript", INSTALL),
    ("examples/greeter-typescript", &["npm", "run", "types"]),
    ("examples/greeter-typescript", &["npm", "test"]),
    ("examples/greeter-javascript", INSTALL),
    ("examples/greeter-javascript", &["npm", "test"]),
    ("guests/sdk/python", &["python3", "-m", "unittest"]),
    ("examples/greeter-python", &["python3", "-m", "unittest"]),
    ("guests/sdk/c", &["make", "test"]),
    ("examples/greeter-c", &["make", "test"]),
    ("examples/namespace-defaults", &["go", "vet", "./..."]),
    ("examples/namespace-defaults", &["go", "test", "./..."]),
    ("examples/idle-scaler", INSTALL),
    ("examples/idle-scaler", &["npm", "run", "types"]),
    ("examples/idle-scaler", &["npm", "test"]),
    ("examples/cert-expiry", INSTALL),
    ("examples/cert-expiry", &["npm", "test"]),
    ("examples/secret-mirror", &["python3", "-m", "unittest"]),
    ("examples/image-pin", &["make", "test"]),
];

/// Installs the packages of a folder. Their scripts aren't needed.
const INSTALL: &[&str] = &[
    "npm",
    "install",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command that succeeds in a folder of the workspace. Returns its output.
fn succeeds(folder: &str, command: &[&str]) -> String {
    let output = Command::new(command[0])
        .args(&command[1..])
        .current_dir(root().join(folder))
        .env("FLYBALL", env!("CARGO_BIN_EXE_flyball"))
        .output()
        .unwrap_or_else(|error| panic!("can't run {command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?} fails in {folder}:\n{text}{errors}"
    );
    text
}

/// Whether a program is installed. If it isn't, records which tests are skipped.
fn is_installed(program: &str, skipped: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    let is_missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if is_missing {
        skip(skipped, &format!("{program} is not installed")).unwrap();
    }
    !is_missing
}

#[test]
fn the_sdks_and_examples_pass_their_own_tests() {
    for (folder, command) in CHECKS {
        let name = format!("the_sdks_and_examples_pass_their_own_tests ({folder})");
        if is_installed(command[0], &name) {
            succeeds(folder, command);
        }
    }
}

#[test]
fn the_code_in_go_is_formatted() {
    for folder in [
        "guests/sdk/go",
        "examples/cloud-aws",
        "examples/greeter-go",
        "examples/controllerruntime-builtins",
        "examples/controllerruntime-jobset",
        "examples/namespace-defaults",
        "tests/bench/operator",
        "tests/cluster/jobset",
        "tests/guests/controllerruntime",
        "tests/guests/go-cloud",
    ] {
        let unformatted = succeeds(folder, &["gofmt", "-l", "."]);
        // Generated and copied files need not be formatted.
        let is_ours =
            |file: &&str| !file.contains("internal/bindings/") && !file.contains("zz_upstream_");
        let ours: Vec<&str> = unformatted.lines().filter(is_ours).collect();
        assert!(ours.is_empty(), "{folder}: {ours:?}");
    }
}

#[test]
fn the_sdk_for_python_is_a_wheel_that_can_be_installed() {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let environment = format!("guests/componentize-py-{COMPONENTIZE_PY}/bin");
    let bin = root().join(target).join(environment);
    let [python, pip] = ["python", "pip"].map(|program| bin.join(program).display().to_string());
    assert!(
        Path::new(&pip).is_file(),
        "{pip} is missing: create it with `cargo xtask guests python`"
    );
    let folder = tempfile::tempdir().unwrap();
    // setuptools writes into the folder of the sources.
    let sources = folder.path().join("sdk").display().to_string();
    succeeds(".", &["cp", "-r", "guests/sdk/python", &sources]);
    let wheels = folder.path().join("wheels").display().to_string();
    let build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"];
    succeeds(
        ".",
        &[&[&pip as &str], &build[..], &[&wheels, &sources]].concat(),
    );
    let wheel = format!(
        "{wheels}/flyball_sdk-{}-py3-none-any.whl",
        env!("CARGO_PKG_VERSION")
    );
    let installed = folder.path().join("installed").display().to_string();
    let install = ["install", "--no-deps", "--no-index", "--target"];
    succeeds(
        ".",
        &[&[&pip as &str], &install[..], &[&installed, &wheel]].concat(),
    );
    let code = format!(
        "import sys; sys.path.insert(0, {installed:?}); import flyball, flyball.testing; print(flyball.__file__)"
    );
    let found = succeeds(".", &[&python, "-c", &code]);
    assert!(found.starts_with(&installed), "{found}");
}
