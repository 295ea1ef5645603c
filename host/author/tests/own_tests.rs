//! Runs the tests of the SDKs and of the greeters, with their languages' own tools.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders, and the commands that must succeed there.
const CHECKS: [(&str, &[&str]); 8] = [
    ("guests/sdk-go", &["go", "vet", "./..."]),
    ("guests/sdk-go", &["go", "test", "./..."]),
    ("examples/greeter-go", &["go", "vet", "./..."]),
    ("examples/greeter-go", &["go", "test", "./..."]),
    ("guests/sdk-python", &["python3", "-m", "unittest"]),
    ("examples/greeter-python", &["python3", "-m", "unittest"]),
    ("guests/sdk-c", &["make", "test"]),
    ("examples/greeter-c", &["make", "test"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command that succeeds in a folder of the workspace. Returns its output.
fn succeeds(folder: &str, command: &[&str]) -> String {
    let output = Command::new(command[0])
        .args(&command[1..])
        .current_dir(root().join(folder))
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

#[test]
fn the_sdks_and_greeters_pass_their_own_tests() {
    for (folder, command) in CHECKS {
        succeeds(folder, command);
    }
}

#[test]
fn the_code_in_go_is_formatted() {
    for folder in ["guests/sdk-go", "examples/greeter-go"] {
        let unformatted = succeeds(folder, &["gofmt", "-l", "."]);
        // Generated files are not.
        let ours: Vec<&str> = unformatted
            .lines()
            .filter(|file| !file.starts_with("internal/bindings/"))
            .collect();
        assert!(ours.is_empty(), "{folder}: {ours:?}");
    }
}
