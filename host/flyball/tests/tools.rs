//! Runs the commands that need no cluster, on the guests that `cargo xtask build` built.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flyball_controlplane::Process;
use flyball_fakes::memory::peak;
use serde_json::Value;

fn flyball(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(args)
        .output()
        .expect("the binary runs")
}

/// Runs a command that succeeds. Returns its standard output.
fn printed(args: &[&str]) -> String {
    let output = flyball(args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(args)).expect("JSON")
}

/// Runs a command that fails. Returns its standard error.
fn refusal(args: &[&str]) -> String {
    let output = flyball(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace")
}

fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

fn guest(name: &str) -> String {
    let path = target().join(format!("guests/components/{name}.wasm"));
    assert!(
        path.is_file(),
        "{} is missing: build it with `cargo xtask build`",
        path.display()
    );
    path.display().to_string()
}

#[test]
fn a_plugin_is_shown_with_what_it_reads_and_asks_for() {
    let greeter = guest("greeter");
    let text = printed(&["inspect", &greeter]);
    for line in [
        "name          greeter",
        "world         flyball:controller/controller@0.2.0",
        "watches       v1/Namespace",
        "v1/ConfigMap, with metadata.name=greeting",
        "reads metadata.name, data.greeting",
        "enqueues its namespace",
        "wants         create, delete, get, update v1/ConfigMap",
        "digest        sha256:",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    let shown = json(&["inspect", "-o", "json", &greeter]);
    assert_eq!(shown["description"]["name"], "greeter");
    assert_eq!(
        shown["bytes"],
        std::fs::metadata(&greeter).expect("it is there").len()
    );
    assert!(
        shown["imports"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|name| name == "flyball:controller/lister@0.2.0")
    );
    // Go's toolchain records the language.
    let go = json(&["inspect", "-o", "json", &guest("greeter-go")]);
    assert!(
        go["producers"]["language"][0]
            .as_str()
            .is_some_and(|language| language.starts_with("Go")),
        "{go}"
    );
}

#[test]
fn a_plugin_describes_itself_with_the_configuration_of_a_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, content).expect("it is written");
        path
    };
    let (job, faulty) = (guest("job-controller"), guest("faulty"));
    let patient = write(
        "patient.toml",
        "[plugins.job-controller.config]\nsync-batch-period = \"1234ms\"\n\
         [[plugins.job-controller.allow]]\nkinds = [\"batch/v1/Job\", \"v1/Pod\"]\nverbs = [\"watch\"]\n",
    );
    let delayed = ", after 1.234s";
    let shown = printed(&["inspect", "--policy", &patient, &job]);
    assert!(shown.contains(delayed), "{shown}");
    let shown = printed(&["inspect", &job]);
    assert!(!shown.contains(delayed), "{shown}");

    let broken = write(
        "broken.toml",
        "[plugins.faulty.config]\ndescribe = \"malformed\"\n",
    );
    printed(&["validate", &faulty]);
    let said = refusal(&["validate", "--policy", &broken, &faulty]);
    assert!(said.contains(&faulty), "{said}");
    for command in ["inspect", "validate"] {
        let said = refusal(&[command, "--policy", "/no/such", &job]);
        assert!(said.contains("/no/such"), "{said}");
    }
}

#[test]
fn each_file_that_the_host_could_not_load_has_one_line_of_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("it is written");
        path.display().to_string()
    };
    let (greeter, text) = (guest("greeter"), write("text.wasm", b"#!/bin/sh"));
    let module = write("module.wasm", b"\0asm\x01\0\0\0");
    let good = write("good.toml", b"[plugins.a]\nservice-account = \"a/b\"\n");
    let bad = write("bad.toml", b"[plugins.a]\nservice-acount = \"a/b\"\n");
    assert_eq!(
        printed(&["validate", &greeter, &good]),
        format!(
            "{greeter}: valid: the plugin greeter {}\n{good}: valid: a policy for a\n",
            env!("CARGO_PKG_VERSION")
        )
    );
    let misspelt = write(
        "misspelt.toml",
        b"[[plugins.a.allow]]\nkinds = [\"v1/Podd\"]\nverbs = [\"get\"]\n",
    );
    let digest = "0".repeat(64);
    let unsigned = write(
        "unsigned.toml",
        format!("[plugins.a]\nsource = \"oci://example.com/a@sha256:{digest}\"\nsigned-by = \"no.pub\"\n").as_bytes(),
    );
    for (file, problem) in [
        (&misspelt, "did you mean `v1/Pod`?"),
        (&unsigned, "no.pub: No such file"),
        (&text, "not WebAssembly"),
        (&module, "`flyball build`"),
        (&bad, "service-acount"),
        (&"/no/such".to_owned(), "No such file"),
    ] {
        let said = refusal(&["validate", file]);
        assert!(
            said.contains(problem) && said.contains(file.as_str()) && said.lines().count() == 1,
            "{said}"
        );
    }
    let output = flyball(&["validate", "-o", "json", &text, &greeter]);
    assert_eq!(output.status.code(), Some(1));
    let checked: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&checked[0]["valid"], &checked[1]["valid"]),
        (&false.into(), &true.into()),
        "{checked}"
    );
}

#[test]
fn all_mistakes_of_all_files_are_shown_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, kinds: &str| {
        let path = folder.path().join(name).display().to_string();
        let text = format!("[[plugins.a.allow]]\nkinds = [{kinds}]\nverbs = [\"get\"]\n");
        std::fs::write(&path, text).expect("it is written");
        path
    };
    let first = write("a.toml", "\"apps/v1/Deploymnt\", \"v1/ConfigMaps\"");
    let second = write("b.toml", "\"apps/v1beta1/Deployment\"");
    let said = refusal(&["validate", &first, &second]);
    for (file, meant) in [
        (&first, "`apps/v1/Deployment`"),
        (&first, "`v1/ConfigMap`"),
        (&second, "`apps/v1/Deployment`"),
    ] {
        let mut lines = said.lines();
        let found = lines.any(|line| line.starts_with(file.as_str()) && line.contains(meant));
        assert!(found, "{file}, {meant}: {said}");
    }
    // Kinds of others are checked against the files of their definitions.
    let definition = folder.path().join("crd.yaml").display().to_string();
    std::fs::write(&definition, LEAF).expect("it is written");
    let good = write("c.toml", "\"tree.example.org/v1/Leaf\"");
    printed(&["validate", "--crd", &definition, &good]);
    let wrong = write("d.toml", "\"tree.example.org/v1/Leav\"");
    let said = refusal(&["validate", "--crd", &definition, &wrong]);
    assert!(
        said.contains("did you mean `tree.example.org/v1/Leaf`?"),
        "{said}"
    );
}

/// A definition whose plural is not the usual one.
const LEAF: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: leaves.tree.example.org}
spec:
  group: tree.example.org
  scope: Namespaced
  names: {kind: Leaf, plural: leaves}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
";

#[test]
fn roles_have_the_plural_of_a_flag_or_file_and_a_guess_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, text).expect("it is written");
        path
    };
    let policy = write(
        "policy.toml",
        "[[plugins.a.allow]]\nkinds = [\"tree.example.org/v1/Leaf\"]\nverbs = [\"watch\"]\n",
    );
    let definition = write("leaf.yaml", LEAF);
    let rbac = |flags: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args(["rbac", "--host", "--policy", &policy])
            .args(flags)
            .env("HOME", folder.path())
            .env_remove("KUBECONFIG")
            .env_remove("XDG_RUNTIME_DIR")
            .output()
            .expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr))
    };
    for flags in [["--plural", "Leaf=leaves"], ["--crd", &definition]] {
        let (roles, warnings) = rbac(&flags);
        assert!(roles.contains("- leaves\n"), "{roles}");
        assert_eq!(warnings, "");
    }
    let (roles, warnings) = rbac(&[]);
    assert!(roles.contains("- leafs\n"), "{roles}");
    assert!(
        warnings.contains("`leafs` is a guess") && warnings.contains("--plural Leaf=PLURAL"),
        "{warnings}"
    );
    let (_, refused) = rbac(&["--plural", "Laef=leaves"]);
    assert!(refused.contains("which is not used here"), "{refused}");
    // The definition of the project, beside the policy.
    write("crd.yaml", LEAF);
    let (roles, warnings) = rbac(&[]);
    assert!(roles.contains("- leaves\n"), "{roles}");
    assert_eq!(warnings, "");
}

#[test]
fn the_policy_of_each_guest_is_valid_and_its_roles_are_equal_in_yaml_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in [
        "greeter",
        "greeter-go",
        "greeter-python",
        "deployment-controller",
        "garbage-collector-controller",
        "namespace-controller",
        "fake-csi",
        "fake-kubelet",
    ] {
        let guest = guest(name);
        let policy = folder
            .path()
            .join(format!("{name}.toml"))
            .display()
            .to_string();
        std::fs::write(&policy, printed(&["policy", &guest])).expect("it is written");
        assert!(
            printed(&["validate", &policy]).contains("valid: a policy for "),
            "{name}"
        );
        let granted = json(&["rbac", "-o", "json", "--policy", &policy, &guest]);
        let yaml = printed(&["rbac", "--policy", &policy, &guest]);
        let documents: Vec<Value> = serde_saphyr::from_multiple(&yaml).expect("YAML");
        assert_eq!(Value::from(documents), granted["items"], "{name}");
        let trusted = ["rbac", "-o", "json", &guest];
        if ["garbage-collector-controller", "namespace-controller"].contains(&name) {
            assert!(refusal(&trusted).contains("all kinds"), "{name}");
        } else {
            assert_eq!(json(&trusted), granted, "{name}");
        }
    }
}

#[test]
fn a_plugin_needs_roles_only_if_the_policy_mentions_it_and_has_a_default_account() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("p.toml").display().to_string();
    std::fs::write(&policy, "[plugins.other]").expect("it is written");
    let said = refusal(&["rbac", "--policy", &policy, &guest("greeter")]);
    assert!(
        said.contains("does not mention the plugin `greeter`"),
        "{said}"
    );
    std::fs::write(&policy, "[plugins.greeter]").expect("it is written");
    let roles = json(&["rbac", "-o", "json", "--policy", &policy, &guest("greeter")]);
    let items = roles["items"].as_array().expect("a list");
    let account = items
        .iter()
        .find(|item| item["kind"] == "ServiceAccount")
        .expect("an account");
    assert_eq!(
        (
            &account["metadata"]["namespace"],
            &account["metadata"]["name"]
        ),
        (&"flyball-system".into(), &"greeter".into())
    );
}

#[test]
fn a_plugin_s_name_is_that_of_the_running_host_although_a_folder_has_it_too() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("hello")).expect("it is created");
    for command in ["policy", "rbac"] {
        let output = Command::new(env!("CARGO_BIN_EXE_flyball"))
            .args([command, "hello", "--admin-socket", "none.sock"])
            .current_dir(&folder)
            .output()
            .expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("can't connect to a running host at none.sock"),
            "{said}"
        );
    }
}

#[test]
fn the_roles_of_the_host_need_no_plugin() {
    let roles = json(&["rbac", "--host", "-o", "json"]);
    let kinds: Vec<&Value> = roles["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| &item["kind"])
        .collect();
    let expected = [
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Role",
        "RoleBinding",
    ];
    assert_eq!(kinds, expected);
    let yaml = printed(&["rbac", "--host"]);
    assert!(
        yaml.starts_with("# The roles of a host as flyball-system/flyball"),
        "{yaml}"
    );
    let said = String::from_utf8(flyball(&["rbac"]).stderr).expect("text");
    assert!(said.contains("<PLUGIN>"), "{said}");
}

#[test]
fn completion_scripts_contain_all_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completion", shell]);
        for word in [
            "inspect",
            "validate",
            "rbac",
            "push",
            "plugin-dir",
            "signed-by",
        ] {
            assert!(
                script.contains(word),
                "{word} is missing in the script for {shell}"
            );
        }
    }
}

#[test]
fn a_pushed_package_is_pulled_unchanged() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let registry = runtime
        .block_on(flyball_controlplane::Registry::start())
        .expect("a registry");
    let folder = tempfile::tempdir().expect("a folder");
    let (greeter, back) = (guest("greeter"), folder.path().join("back.wasm"));
    let (at, output) = (
        format!("oci://{}/team/greeter:0.1.0", registry.address()),
        back.display().to_string(),
    );
    let pinned = printed(&["push", &greeter, &at]).trim().to_owned();
    assert!(
        pinned.starts_with(&format!(
            "oci://{}/team/greeter@sha256:",
            registry.address()
        )),
        "{pinned}"
    );
    for from in [&at, &pinned] {
        assert!(printed(&["pull", from, "-o", &output]).contains(&pinned));
        assert_eq!(
            std::fs::read(&back).expect("it is there"),
            std::fs::read(&greeter).expect("it is there")
        );
        std::fs::remove_file(&back).expect("it is removed");
    }
    let key = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../registry/testdata/cosign.pub")
        .display()
        .to_string();
    let said = refusal(&["pull", &pinned, "-o", &output, "--signed-by", &key]);
    assert!(
        said.contains("is not signed, and a signature is required") && !back.exists(),
        "{said}"
    );
    // A file that is not a plugin is not pushed.
    let said = refusal(&["push", &key, &at]);
    assert!(said.contains("not WebAssembly"), "{said}");
}

#[test]
fn the_schema_accepts_the_description_of_every_built_in_controller_but_no_unknown_field() {
    let path = root()
        .join("wit/describe.schema.json")
        .display()
        .to_string();
    let mut schemas = boon::Schemas::new();
    let schema = boon::Compiler::new()
        .compile(&path, &mut schemas)
        .expect("a schema");
    let codes = target()
        .join("guests/built-in")
        .join(std::env::consts::ARCH);
    let components = target().join("guests/components");
    let files: Vec<PathBuf> = std::fs::read_dir(codes)
        .expect("built by `cargo xtask build`")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "cwasm")
        })
        .map(|code| {
            let name = code.file_name().expect("it has one");
            components.join(name).with_extension("wasm")
        })
        .collect();
    assert_eq!(files.len(), flyball_controllers::built_in().count());
    for file in files {
        let shown = json(&["inspect", "-o", "json", &file.display().to_string()]);
        let description = &shown["description"];
        if let Err(error) = schemas.validate(description, schema) {
            panic!("{}: {error}", file.display());
        }
        for place in ["", "/queues/0", "/watches/0", "/watches/0/map/0"] {
            let mut changed = description.clone();
            let Some(object) = changed.pointer_mut(place) else {
                continue;
            };
            object["unheardOf"] = true.into();
            assert!(
                schemas.validate(&changed, schema).is_err(),
                "{}: {place}",
                file.display()
            );
        }
    }
}

/// Runs a command that fails. Returns its standard error, and the most memory that the process had, in bytes.
fn measured_refusal(args: &[&str]) -> (String, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("output");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
    command.args(args);
    let mut child = Process::spawn("flyball", command, &log).expect("the binary runs");
    let mut most = 0;
    let ended = loop {
        if let Some(ended) = child.exited() {
            break ended;
        }
        most = most.max(peak(child.pid()).unwrap_or_default());
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    let output = std::fs::read_to_string(&log).expect("the output is text");
    assert_eq!(ended.code(), Some(1), "{args:?}: {output}");
    (output, most)
}

#[test]
fn a_description_of_any_size_is_refused_with_little_memory() {
    const MARK: &[u8] = b"mode of faulty:";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("faulty.wasm");
    let path = file.display().to_string();
    let wasm = std::fs::read(guest("faulty")).expect("it is there");
    let place = wasm
        .windows(MARK.len() + 1)
        .position(|bytes| bytes.starts_with(MARK) && bytes.ends_with(b" "))
        .expect("the place for a mode");
    // The first one is a list of ten million watches, in 30 MB.
    for (mode, expected) in [
        ("many-watches", "more than 1048576"),
        ("few-watches", "more than 20000 values"),
        ("long", "more than"),
        ("deep", "did not return a valid description"),
    ] {
        let mut written = wasm.clone();
        written[place + MARK.len()..][..mode.len()].copy_from_slice(mode.as_bytes());
        std::fs::write(&file, written).expect("it is written");
        let (said, memory) = measured_refusal(&["inspect", &path]);
        assert!(
            said.contains(expected) && said.len() < 2000,
            "{mode}: {said}"
        );
        // The guest itself may use 256 MiB.
        assert!(memory < 512 << 20, "{mode}: {} MiB", memory >> 20);
    }
    // A file that is larger than any plugin isn't read either.
    std::fs::File::create(&file)
        .and_then(|file| file.set_len(10 << 30))
        .expect("a file with a hole");
    let (said, memory) = measured_refusal(&["inspect", &path]);
    assert!(said.contains("67108864"), "{said}");
    assert!(memory < 200 << 20, "{} MiB", memory >> 20);
}
