//! `flyball test`: built components against the API server in memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The greeters of the examples, which write the same objects.
const GREETERS: [&str; 6] = [
    "greeter-rust",
    "greeter-go",
    "greeter-typescript",
    "greeter-javascript",
    "greeter-python",
    "greeter-c",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The component of a guest; none if it is not built.
fn component(name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let path = root()
        .join(target)
        .join(format!("guests/components/{name}.wasm"));
    path.is_file().then_some(path)
}

/// The component of a guest that `cargo xtask build` always builds.
fn guest(name: &str) -> PathBuf {
    component(name)
        .unwrap_or_else(|| panic!("{name} is missing: build it with `cargo xtask build`"))
}

/// A test of a component, with its files in a folder.
struct Test {
    folder: TempDir,
    command: Command,
}

impl Test {
    fn of(component: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command.arg("test").arg(component);
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            command,
        }
    }

    /// Adds a flag with a file of this content.
    fn with(mut self, flag: &str, file: &str, content: &str) -> Self {
        let path = self.folder.path().join(file);
        std::fs::write(&path, content).expect("it is written");
        self.command.arg(flag).arg(path);
        self
    }

    fn setting(mut self, setting: &str) -> Self {
        self.command.arg("--plugin-config").arg(setting);
        self
    }

    fn within(mut self, seconds: u32) -> Self {
        self.command.arg("--within").arg(seconds.to_string());
        self
    }

    fn output(mut self) -> Output {
        self.command.output().expect("the binary runs")
    }

    /// Returns what a test prints that passes.
    fn passes(self) -> String {
        let output = self.output();
        let error = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{printed}{error}");
        printed
    }

    /// Returns the problems that a test reports that fails.
    fn fails(self) -> String {
        let output = self.output();
        let error = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(!error.contains("thread '"), "the command panicked: {error}");
        error
    }
}

/// A Namespace that asks for a greeting.
const ASKS: &str = "
apiVersion: v1
kind: Namespace
metadata:
  name: team
  annotations: {greeter.flyball.dev/greeting: hello}
";

fn config_map(namespace: &str, name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{namespace: {namespace}, name: {name}}}}}\n"
    )
}

#[test]
fn a_plugin_that_leaves_the_expected_objects_passes() {
    let expected = "
apiVersion: v1
kind: ConfigMap
metadata: {namespace: team, name: greeting}
data: {greeting: hello}
";
    let printed = Test::of(&guest("greeter"))
        .with("--objects", "objects.yaml", ASKS)
        .with("--expect", "expected.yaml", expected)
        .with(
            "--expect-absent",
            "absent.yaml",
            &config_map("default", "greeting"),
        )
        .passes();
    assert!(
        printed.contains("create v1/ConfigMap team/greeting"),
        "{printed}"
    );
    assert!(printed.contains("all 2 expectations hold"), "{printed}");
}

#[test]
fn without_expectations_the_written_objects_are_printed() {
    let printed = Test::of(&guest("greeter"))
        .with("--objects", "objects.yaml", ASKS)
        .passes();
    let (_, objects) = printed.split_once("objects:\n").expect("objects");
    let written: serde_json::Value = serde_saphyr::from_str(objects).expect("one object");
    assert_eq!(written["data"]["greeting"], "hello", "{printed}");
}

#[test]
fn an_expectation_that_does_not_hold_is_told_field_by_field() {
    let expected = "
apiVersion: v1
kind: ConfigMap
metadata: {namespace: team, name: greeting}
data: {greeting: goodbye}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: team, name: other}
";
    let problems = Test::of(&guest("greeter"))
        .with("--objects", "objects.yaml", ASKS)
        .with("--expect", "expected.yaml", expected)
        .with(
            "--expect-absent",
            "absent.yaml",
            &config_map("team", "greeting"),
        )
        .fails();
    for problem in [
        "expected.yaml: v1/ConfigMap team/greeting differs:\n    data.greeting: expected \"goodbye\", found \"hello\"",
        "expected.yaml: no v1/ConfigMap team/other exists; there are v1/ConfigMap team/greeting",
        "absent.yaml: v1/ConfigMap team/greeting exists, and must not",
    ] {
        assert!(problems.contains(problem), "{problems}");
    }
}

#[test]
fn a_trap_fails_the_test_with_its_key_and_its_message() {
    let problems = Test::of(&guest("faulty"))
        .with("--objects", "objects.yaml", &config_map("panic", "a"))
        .fails();
    assert!(
        problems.contains("the reconcile of panic/a failed"),
        "{problems}"
    );
    assert!(
        problems.contains("panic in reconcile of panic/a"),
        "{problems}"
    );
}

#[test]
fn settings_of_the_command_line_reach_the_plugin_and_unknown_ones_are_refused() {
    // The plugin describes itself with them.
    let mistake = Test::of(&guest("faulty"))
        .setting("faulty.describe=malformed")
        .fails();
    assert!(mistake.contains("description"), "{mistake}");
    let unknown = Test::of(&guest("greeter")).setting("greeting=hi").fails();
    assert!(
        unknown.contains("the plugin `greeter` does not declare the setting `greeting`"),
        "{unknown}"
    );
}

#[test]
fn a_denied_request_fails_the_test_with_the_missing_grant() {
    let policy = "
[[plugins.greeter.allow]]
kinds = [\"v1/Namespace\", \"v1/ConfigMap\"]
verbs = [\"watch\"]
";
    let problems = Test::of(&guest("greeter"))
        .with("--objects", "objects.yaml", ASKS)
        .with("--policy", "policy.toml", policy)
        .fails();
    assert!(problems.contains("denied"), "{problems}");
    assert!(problems.contains("create"), "{problems}");
}

#[test]
fn a_plugin_that_is_always_busy_does_not_settle() {
    let problems = Test::of(&guest("faulty"))
        .with("--objects", "objects.yaml", &config_map("requeue", "a"))
        .within(5)
        .fails();
    assert!(
        problems.contains("does not settle within 5 s"),
        "{problems}"
    );
}

#[test]
fn each_input_that_cannot_be_used_is_named() {
    let greeter = guest("greeter");
    let no_policy = "[plugins.other]\nservice-account = \"a/b\"\n";
    for (test, problem) in [
        (Test::of(Path::new("/no/such.wasm")), "/no/such.wasm"),
        (Test::of(&root().join("Cargo.toml")), "not WebAssembly"),
        (
            Test::of(&greeter).with("--objects", "o.yaml", "a: [b"),
            "o.yaml is not YAML",
        ),
        (
            Test::of(&greeter).with("--objects", "o.yaml", "kind: A"),
            "no apiVersion or kind",
        ),
        (
            Test::of(&greeter).with("--objects", "o.yaml", "{apiVersion: v1, kind: Pod}"),
            "no metadata.name",
        ),
        (
            Test::of(&greeter).with("--expect", "e.yaml", "# nothing"),
            "e.yaml has no objects to expect",
        ),
        (
            Test::of(&greeter).with("--policy", "p.toml", "[plugin.a]"),
            "p.toml",
        ),
        (
            Test::of(&greeter).with("--policy", "p.toml", no_policy),
            "pending",
        ),
    ] {
        let problems = test.fails();
        assert!(problems.contains(problem), "{problem}: {problems}");
    }
}

/// A test of the greeter in Rust with its definition, in which a text is replaced.
fn defined(from: &str, to: &str) -> Test {
    let examples = root().join("examples");
    let definition = std::fs::read_to_string(examples.join("greeter.crd.yaml")).expect("the file");
    assert!(definition.contains(from), "{definition}");
    let objects = std::fs::read_to_string(examples.join("greeter.test/objects.yaml"));
    Test::of(&guest("greeter-rust"))
        // The objects first: definitions apply to all of them.
        .with("--objects", "objects.yaml", &objects.expect("the file"))
        .with("--objects", "crd.yaml", &definition.replace(from, to))
}

#[test]
fn a_field_that_the_definition_lacks_is_dropped_with_a_warning_in_the_log() {
    let printed = defined("observedGeneration:", "observed:").passes();
    assert!(
        printed.contains("the API server warns: unknown field \"status."),
        "{printed}"
    );
}

#[test]
fn a_given_object_that_does_not_fit_its_definition_fails_before_the_plugin_runs() {
    let problems = defined("  text:", "  txet:").fails();
    assert!(
        problems.contains("can't create an object of")
            && problems.contains("unknown field \"spec.text\""),
        "{problems}"
    );
}

#[test]
fn the_greeter_of_each_language_leaves_the_objects_of_the_examples() -> anyhow::Result<()> {
    let examples = root().join("examples");
    let mut missing = Vec::new();
    for name in GREETERS {
        let Some(component) = component(name) else {
            missing.push(name);
            continue;
        };
        let mut test = Test::of(&component).within(120);
        test.command
            .arg("--policy")
            .arg(examples.join(name).join("policy.toml"));
        for (flag, file) in [
            ("--objects", "greeter.crd.yaml"),
            ("--objects", "greeter.test/objects.yaml"),
            ("--expect", "greeter.test/expected.yaml"),
        ] {
            test.command.arg(flag).arg(examples.join(file));
        }
        let printed = test.passes();
        assert!(
            printed.contains("all 3 expectations hold"),
            "{name}: {printed}"
        );
    }
    match missing.as_slice() {
        [] => Ok(()),
        names => flyball_controlplane::skip(
            "the_greeter_of_each_language_leaves_the_objects_of_the_examples",
            &format!("not built: {}", names.join(", ")),
        ),
    }
}
