//! Projects in Python and C, from an empty folder to a plugin: `flyball new`, the tests of the project, and `flyball build`.

use std::path::{Path, PathBuf};
use std::process::Command;

use flyball_author::{COMPONENTIZE_PY, Project};
use serde_json::Value;
use tempfile::TempDir;

/// A new project, named `my-greeter`.
struct New {
    folder: TempDir,
    /// The folder of a virtual environment, which the commands run in.
    environment: PathBuf,
}

impl New {
    fn create(language: &str) -> Self {
        let new = Self {
            folder: tempfile::tempdir().expect("a folder"),
            environment: environment(),
        };
        let dir = new.dir().display().to_string();
        new.flyball(&["new", "my-greeter", "--lang", language, "--dir", &dir]);
        new
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn flyball(&self, arguments: &[&str]) -> String {
        self.run(Command::new(env!("CARGO_BIN_EXE_flyball")).args(arguments))
    }

    /// Runs a command that succeeds. Returns its output.
    fn run(&self, command: &mut Command) -> String {
        let output = command
            .env("VIRTUAL_ENV", &self.environment)
            .output()
            .unwrap_or_else(|error| panic!("can't run {command:?}: {error}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}{errors}");
        text + &errors
    }

    /// Builds the project, and checks that the component is a plugin that imports the world alone.
    fn builds_into_a_plugin(&self) {
        let dir = self.dir();
        let wasm = dir.join("my-greeter.wasm").display().to_string();
        let said = self.flyball(&["build", &dir.display().to_string()]);
        assert!(said.contains("built my-greeter 0.1.0: "), "{said}");
        let shown: Value =
            serde_json::from_str(&self.flyball(&["inspect", "-o", "json", &wasm])).expect("JSON");
        assert_eq!(shown["description"]["name"], "my-greeter");
        let watches = shown["description"]["watches"].as_array().expect("watches");
        assert_eq!(watches.len(), 2, "{shown}");
    }
}

/// The environment with componentize-py that `cargo xtask` creates.
fn environment() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root.join(target).join("guests");
    let environment = folder.join(format!("componentize-py-{COMPONENTIZE_PY}"));
    environment.canonicalize().unwrap_or_else(|error| {
        panic!(
            "{}: {error}: create it with `cargo xtask guests python`",
            environment.display()
        )
    })
}

#[test]
fn a_new_project_in_python_passes_its_tests_and_builds_into_a_plugin() {
    let new = New::create("python");
    let mut python = Command::new("python3");
    let tested = new.run(python.args(["-m", "unittest"]).current_dir(new.dir()));
    assert!(tested.contains("Ran 3 tests"), "{tested}");
    new.builds_into_a_plugin();
}

#[test]
fn a_syntax_error_in_python_is_shown_with_its_line() {
    let new = New::create("python");
    let controller = new.dir().join("controller.py");
    let text = std::fs::read_to_string(&controller).expect("it is there");
    std::fs::write(&controller, text + "\nif:\n").expect("it is written");
    let built = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .arg("build")
        .arg(new.dir())
        .env("VIRTUAL_ENV", &new.environment)
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&built.stderr);
    assert!(!built.status.success());
    assert!(
        error.contains("controller.py\", line ") && error.contains("SyntaxError"),
        "{error}"
    );
}

#[test]
fn a_new_project_in_c_passes_its_tests_and_builds_into_a_plugin() -> anyhow::Result<()> {
    let new = New::create("c");
    let tested = new.run(Command::new("make").arg("test").current_dir(new.dir()));
    assert_eq!(tested.matches("\nok ").count(), 3, "{tested}");
    assert!(tested.contains("0 of 3 tests failed"), "{tested}");
    if Project::open(&new.dir())?.check_tools().is_err() {
        return flyball_controlplane::skip(
            "a_new_project_in_c_passes_its_tests_and_builds_into_a_plugin",
            "no compiler for WASI is installed",
        );
    }
    new.builds_into_a_plugin();
    Ok(())
}

#[test]
fn a_missing_componentizer_is_named_with_how_to_get_it() {
    let new = New::create("python");
    let built = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .arg("build")
        .arg(new.dir())
        .env("VIRTUAL_ENV", new.dir())
        .env("PATH", "")
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&built.stderr);
    assert!(!built.status.success());
    let install = format!(".venv/bin/pip install componentize-py=={COMPONENTIZE_PY}");
    assert!(
        error.contains("componentize-py (not installed)") && error.contains(&install),
        "{error}"
    );
}
