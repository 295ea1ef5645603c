//! The generator of the table: what it takes from a folder, and what it says about invalid manifests.

#[path = "../build/manifest.rs"]
mod manifest;
#[path = "../build/table.rs"]
mod table;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

const POLICY: &str =
    "[plugins.tidy-controller]\nservice-account = \"kube-system/tidy-controller\"\n";
const MANIFEST: &str = "about = \"Tidies up\"\n[[flags]]\nname = \"tidy-period\"\ntype = \"duration\"\ndefault = \"5m0s\"\n\
                        help = \"How often it tidies up\"\nsets = { config = \"period\" }\n[scenarios]\nplane = \"workloads\"\n";

/// Creates a folder of controllers with one controller, `tidy`.
fn controllers(manifest: &str, policy: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    add(folder.path(), "tidy", manifest, policy);
    folder
}

fn add(folder: &Path, name: &str, manifest: &str, policy: &str) {
    let own = folder.join(name);
    fs::create_dir(&own).unwrap();
    fs::write(own.join("controller.toml"), manifest).unwrap();
    fs::write(own.join("policy.toml"), policy).unwrap();
}

fn error(manifest: &str, policy: &str) -> String {
    let folder = controllers(manifest, policy);
    manifest::read_all(folder.path())
        .err()
        .expect("it is not valid")
}

#[test]
fn a_folder_is_a_controller_of_the_table() {
    let folder = controllers(MANIFEST, POLICY);
    let code = table::code(&manifest::read_all(folder.path()).unwrap());
    for part in [
        "name: \"tidy-controller\"",
        "name: \"tidy-period\"",
        "Sets::Config(\"period\")",
        "plane: \"workloads\"",
        "tidy/policy.toml",
    ] {
        assert!(code.contains(part), "{part}: {code}");
    }
}

#[test]
fn a_flag_can_set_the_content_of_a_file() {
    let manifest = MANIFEST.replace("{ config =", "{ file =");
    let folder = controllers(&manifest, POLICY);
    let code = table::code(&manifest::read_all(folder.path()).unwrap());
    assert!(code.contains("Sets::File(\"period\")"), "{code}");
}

#[test]
fn the_histograms_of_a_controller_can_be_native_unless_its_manifest_says_no() {
    for (line, expected) in [("", true), ("native-histograms = false\n", false)] {
        let folder = controllers(&format!("{line}{MANIFEST}"), POLICY);
        let code = table::code(&manifest::read_all(folder.path()).unwrap());
        let field = format!("native_histograms: {expected}");
        assert!(code.contains(&field), "{code}");
    }
}

#[test]
fn an_invalid_manifest_is_an_error_that_names_the_file() {
    for (manifest, policy, expected) in [
        (
            "about = \"Tidies up\"\n",
            POLICY,
            "controller.toml: it has no [scenarios]",
        ),
        (
            &MANIFEST.replace("plane", "plan"),
            POLICY,
            "controller.toml: TOML parse error",
        ),
        (
            &MANIFEST.replace("duration", "time"),
            POLICY,
            "unknown variant `time`",
        ),
        (
            &MANIFEST.replace("[scenarios]\n", "[scenarios]\nkilled = [\"none\"]\n"),
            POLICY,
            "there is no scenarios/none.json",
        ),
        (
            MANIFEST,
            "[plugins.other]\n",
            "policy.toml: it must be the policy of tidy-controller alone",
        ),
        (MANIFEST, "[plugins", "policy.toml: TOML parse error"),
    ] {
        let said = error(manifest, policy);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn two_controllers_share_neither_a_name_nor_a_flag() {
    let folder = controllers(MANIFEST, POLICY);
    add(
        folder.path(),
        "neat",
        MANIFEST,
        &POLICY.replace("tidy", "neat"),
    );
    let said = manifest::read_all(folder.path()).err().unwrap();
    assert_eq!(
        said,
        "--tidy-period belongs to both neat-controller and tidy-controller"
    );
}
