//! A cloud in Go that `flyball new` creates: it passes its own tests, and is built into a plugin.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use flyball_controlplane::skip;

/// Runs a command that succeeds in a folder. Returns its output.
fn succeeds(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("can't run {program}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?} fails:\n{text}{errors}"
    );
    text
}

#[test]
fn a_new_cloud_in_go_passes_its_tests_and_is_built() {
    let found = Command::new("go").arg("version").output();
    if found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let name = "a_new_cloud_in_go_passes_its_tests_and_is_built";
        skip(name, "go is not installed").unwrap();
        return;
    }
    let flyball = env!("CARGO_BIN_EXE_flyball");
    let folder = tempfile::tempdir().unwrap();
    succeeds(
        folder.path(),
        flyball,
        &["new", "shelf", "--lang", "go", "--cloud"],
    );
    let project = folder.path().join("shelf");
    // Neither command changes go.mod: it is complete.
    succeeds(&project, "go", &["vet", "./..."]);
    succeeds(&project, "go", &["test", "./..."]);
    let unformatted = succeeds(&project, "gofmt", &["-l", "."]);
    let is_own = |file: &&str| !file.starts_with("flyball-sdk/");
    let own: Vec<&str> = unformatted.lines().filter(is_own).collect();
    assert!(own.is_empty(), "{own:?}");
    succeeds(&project, flyball, &["build"]);
    let shown = succeeds(&project, flyball, &["inspect", "shelf.wasm"]);
    for expected in ["shelf", "0.1.0", "v1/Node"] {
        assert!(shown.contains(expected), "{shown}");
    }
}
