//! Projects in Rust, Go, Python and C, from an empty folder to a plugin: `flyball new`, the tests of the project,
//! `flyball build` and `flyball test`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flyball_author::{COMPONENTIZE_PY, Project};
use serde_json::Value;
use tempfile::TempDir;

/// A new project, named `my-greeter`.
struct New {
    folder: TempDir,
    /// Variables in the environment of all commands.
    variables: Vec<(&'static str, OsString)>,
}

impl New {
    fn create(language: &str, variables: Vec<(&'static str, OsString)>) -> Self {
        Self::create_with(&[], language, variables)
    }

    /// A project about a custom resource with names of its own.
    fn of_website(language: &str, variables: Vec<(&'static str, OsString)>) -> Self {
        let flags = ["--kind", "Website", "--group", "web.example.org"];
        let new = Self::create_with(&flags, language, variables);
        let definition = std::fs::read_to_string(new.dir().join("crd.yaml")).expect("it is there");
        assert!(
            definition.contains("name: websites.web.example.org"),
            "{definition}"
        );
        new
    }

    fn create_with(
        flags: &[&str],
        language: &str,
        variables: Vec<(&'static str, OsString)>,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let new = Self { folder, variables };
        let text = new.text();
        let mut arguments = vec!["new", "my-greeter", "--lang", language, "--dir", &text];
        arguments.extend(flags);
        let said = new.flyball(&arguments);
        assert!(said.contains("flyball build"), "{said}");
        new
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn text(&self) -> String {
        self.dir().display().to_string()
    }

    /// Runs a command of the binary that succeeds. Returns its output.
    fn flyball(&self, arguments: &[&str]) -> String {
        succeeded(self.output(Command::new(env!("CARGO_BIN_EXE_flyball")).args(arguments)))
    }

    /// Runs a command in the project's folder that succeeds. Returns its output.
    fn run(&self, command: &mut Command) -> String {
        succeeded(self.output(command.current_dir(self.dir())))
    }

    /// Runs a command of the binary that fails. Returns its error.
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.output(Command::new(env!("CARGO_BIN_EXE_flyball")).args(arguments));
        assert_eq!(output.status.code(), Some(1), "{arguments:?} succeeds");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Replaces a text in a file of the project.
    fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.dir().join(file);
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert!(text.contains(from), "{file} has no {from:?}:\n{text}");
        std::fs::write(&path, text.replace(from, to)).expect("it is written");
    }

    fn output(&self, command: &mut Command) -> Output {
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        command
            .envs(variables)
            .env("FLYBALL", env!("CARGO_BIN_EXE_flyball"))
            .output()
            .unwrap_or_else(|error| panic!("can't run {command:?}: {error}"))
    }

    /// Builds the project, and checks that the component is a plugin that imports only the world.
    fn builds_into_a_plugin(&self) {
        let wasm = self.dir().join("my-greeter.wasm").display().to_string();
        let said = self.flyball(&["build", &self.text()]);
        assert!(said.contains("built my-greeter 0.1.0: "), "{said}");
        assert!(said.contains(&wasm), "{said}");
        let shown = self.flyball(&["inspect", "-o", "json", &wasm]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(shown["description"]["name"], "my-greeter");
        let watches = shown["description"]["watches"].as_array().expect("watches");
        assert_eq!(watches.len(), 2, "{shown}");
        let imports = shown["imports"].as_array().expect("a list");
        assert!(
            imports.iter().all(|name| name
                .as_str()
                .is_some_and(|name| name.starts_with("flyball:controller/"))),
            "{imports:?}"
        );
        let valid = self.flyball(&["validate", &wasm]);
        assert!(
            valid.contains("valid: the plugin my-greeter 0.1.0"),
            "{valid}"
        );
        let file = |name: &str| format!("{}/plugin-test/{name}.yaml", self.text());
        let definition = format!("{}/crd.yaml", self.text());
        let (objects, expected) = (file("objects"), file("expected"));
        let given = [
            "test",
            &wasm,
            "--objects",
            &definition,
            "--objects",
            &objects,
        ];
        let tested = self.flyball(&[&given[..], &["--expect", &expected]].concat());
        assert!(tested.contains("all 2 expectations hold"), "{tested}");
    }
}

/// Returns the output of a command that succeeded, with its errors last.
fn succeeded(output: Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text + &errors
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace")
}

fn guests() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("guests")
}

#[test]
fn a_new_project_passes_its_test_and_builds_into_a_plugin() {
    // Kept between runs of the tests.
    let built = guests().join("new-project");
    let new = New::create("rust", vec![("CARGO_TARGET_DIR", built.into())]);
    let again = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["new", "my-greeter", "--dir", &new.text()])
        .output()
        .expect("the binary runs");
    assert_eq!(again.status.code(), Some(1));
    let refusal = String::from_utf8_lossy(&again.stderr);
    assert!(refusal.contains("not empty"), "{refusal}");
    // The locked versions of the workspace are already downloaded.
    std::fs::copy(root().join("Cargo.lock"), new.dir().join("Cargo.lock")).expect("it is copied");
    let tested = new.run(Command::new("cargo").args(["test", "--quiet"]));
    assert_eq!(tested.matches("6 passed").count(), 1, "{tested}");
    let printed = new.flyball(&["crd", &new.text()]);
    assert!(
        printed.contains("name: greetings.my-greeter.example.com"),
        "{printed}"
    );
    new.flyball(&["crd", &new.text(), "--check"]);
    new.replace(
        "src/api.rs",
        "pub text: String",
        "pub text: String,\n    pub times: Option<i32>",
    );
    let stale = new.fails(&["crd", &new.text(), "--check"]);
    assert!(stale.contains("crd.yaml is not what"), "{stale}");
    new.flyball(&["crd", &new.text(), "--write"]);
    let written = std::fs::read_to_string(new.dir().join("crd.yaml")).expect("it is written");
    assert!(written.contains("times:"), "{written}");
    new.builds_into_a_plugin();
}

#[test]
fn a_new_project_in_go_passes_its_test_and_builds_into_a_plugin() {
    // Nothing is downloaded: the project contains everything that it needs except Go.
    let alone = vec![
        ("GOPROXY", "off".into()),
        ("GOFLAGS", "-mod=readonly".into()),
    ];
    let new = New::of_website("go", alone);
    let tested = new.run(Command::new("go").args(["test", "-v", "./..."]));
    assert_eq!(tested.matches("--- PASS").count(), 6, "{tested}");
    new.builds_into_a_plugin();
}

#[test]
fn a_new_type_in_go_is_in_the_definition_and_an_old_one_is_found() {
    let new = New::create("go", Vec::new());
    let said = new.flyball(&["crd", &new.text(), "--check"]);
    assert!(said.contains("crd.yaml is up to date"), "{said}");
    let field = "Text string `json:\"text\"`\n\t// +kubebuilder:validation:Minimum=1\n\tTimes int32 `json:\"times,omitempty\"`";
    new.replace(
        "controller/controller.go",
        "Text string `json:\"text\"`\n}\n\n// GreetingStatus",
        &format!("{field}\n}}\n\n// GreetingStatus"),
    );
    let stale = new.fails(&["crd", &new.text(), "--check"]);
    assert!(
        stale.contains("crd.yaml is not what the project's types describe"),
        "{stale}"
    );
    let said = new.flyball(&["crd", &new.text(), "--write"]);
    assert!(
        said.contains("wrote ") && said.contains("crd.yaml"),
        "{said}"
    );
    let printed = new.flyball(&["crd", "-o", "json", &new.text()]);
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let spec = &printed["items"][0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        ["spec"];
    assert_eq!(spec["properties"]["times"]["minimum"], 1.0, "{spec}");
    // The tests of the project read the definition.
    new.run(Command::new("go").args(["test", "./..."]));
}

#[test]
fn a_field_that_is_misspelt_fails_the_tests_of_a_project() {
    let new = New::create("go", Vec::new());
    new.replace(
        "controller/controller.go",
        "Text string `json:\"text\"`\n}\n\n// GreetingStatus",
        "Text string `json:\"txet\"`\n}\n\n// GreetingStatus",
    );
    let mut test = Command::new("go");
    let tested = new.output(test.args(["test", "./..."]).current_dir(new.dir()));
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(!tested.status.success(), "{said}");
    assert!(said.contains("the description reads `spec.txet`"), "{said}");
}

#[test]
fn types_are_generated_from_the_definition_where_no_types_describe_it() {
    for (language, file, field) in [
        ("typescript", "src/api.ts", "times?: number;"),
        ("javascript", "src/api.d.ts", "times?: number;"),
        ("python", "api.py", "times: NotRequired[int]"),
    ] {
        let new = New::create(language, Vec::new());
        let said = new.flyball(&["crd", &new.text(), "--check"]);
        assert!(said.contains("is up to date"), "{said}");
        new.replace(
            "crd.yaml",
            "                text:\n",
            "                times: {type: integer}\n                text:\n",
        );
        let stale = new.fails(&["crd", &new.text(), "--check"]);
        assert!(
            stale.contains(file) && stale.contains("flyball crd --write"),
            "{stale}"
        );
        new.flyball(&["crd", &new.text(), "--write"]);
        let written = std::fs::read_to_string(new.dir().join(file)).expect("it is written");
        assert!(written.contains(field), "{written}");
        let printed = new.flyball(&["crd", &new.text()]);
        assert!(printed.contains("times:"), "{printed}");
    }
    let new = New::create("c", Vec::new());
    assert!(
        new.flyball(&["crd", &new.text()])
            .contains("greetings.my-greeter.example.com")
    );
    let refused = new.fails(&["crd", &new.text(), "--write"]);
    assert!(refused.contains("no file of"), "{refused}");
}

/// A project in Python, in the environment with componentize-py that `cargo xtask` creates.
fn in_python() -> New {
    let environment = guests().join(format!("componentize-py-{COMPONENTIZE_PY}"));
    assert!(
        environment.is_dir(),
        "{} is missing: create it with `cargo xtask guests python`",
        environment.display()
    );
    New::of_website("python", vec![("VIRTUAL_ENV", environment.into())])
}

#[test]
fn a_new_project_in_python_passes_its_tests_and_builds_into_a_plugin() {
    let new = in_python();
    let tested = new.run(Command::new("python3").args(["-m", "unittest"]));
    assert!(tested.contains("Ran 9 tests"), "{tested}");
    new.builds_into_a_plugin();
}

#[test]
fn a_syntax_error_in_python_is_shown_with_its_line() {
    let new = in_python();
    let controller = new.dir().join("controller.py");
    let text = std::fs::read_to_string(&controller).expect("it is there");
    std::fs::write(&controller, text + "\nif:\n").expect("it is written");
    let mut build = Command::new(env!("CARGO_BIN_EXE_flyball"));
    let built = new.output(build.arg("build").arg(new.dir()));
    let error = String::from_utf8_lossy(&built.stderr);
    assert!(!built.status.success());
    assert!(
        error.contains("controller.py\", line ") && error.contains("SyntaxError"),
        "{error}"
    );
}

#[test]
fn a_new_project_in_c_passes_its_tests_and_builds_into_a_plugin() -> anyhow::Result<()> {
    let new = New::of_website("c", Vec::new());
    let tested = new.run(Command::new("make").arg("test"));
    assert_eq!(tested.matches("\nok ").count(), 9, "{tested}");
    assert!(tested.contains("0 of 9 tests failed"), "{tested}");
    if Project::open(&new.dir())?.check_tools().is_err() {
        return flyball_controlplane::skip(
            "a_new_project_in_c_passes_its_tests_and_builds_into_a_plugin",
            "no compiler for WASI is installed",
        );
    }
    new.builds_into_a_plugin();
    // Progress is shown, and the check may be left out. The objects of the SDK are not compiled again.
    let objects = || {
        let entries = std::fs::read_dir(new.dir().join("build")).expect("the scratch folder");
        let times = entries.map(|entry| {
            let entry = entry.expect("an entry");
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            (entry.file_name(), changed.expect("a time"))
        });
        // Objects of the SDK are named by what they are made of, in 16 digits.
        let of_sdk = times.filter(|(name, _)| name.len() == "0123456789abcdef.o".len());
        of_sdk.collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = objects();
    assert!(before.len() > 5, "{before:?}");
    let said = new.flyball(&["build", "--no-check", &new.text()]);
    assert!(said.contains("building my-greeter (C)"), "{said}");
    assert!(said.contains("`flyball validate` checks it"), "{said}");
    assert!(!said.contains("checking it as a host would"), "{said}");
    assert_eq!(objects(), before);
    let quiet = new.flyball(&["build", "--quiet", &new.text()]);
    assert!(quiet.starts_with("built my-greeter 0.1.0: "), "{quiet}");
    Ok(())
}

#[test]
fn a_missing_componentizer_is_named_with_how_to_get_it() {
    let new = in_python();
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
