//! Embeds the templates, the SDKs and the world, so that a project can be created and built without a checkout.

#[path = "src/ignored.rs"]
mod ignored;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use ignored::is_ignored;

/// Each constant, the folder that its paths are relative to, and what it embeds of it. All are relative to this crate.
const EMBEDDED: [(&str, &str, &[&str]); 12] = [
    ("WIT", "../../wit", &["."]),
    ("RUST_TEMPLATE", "templates/rust", &["."]),
    (
        "RUST_SDK",
        "../..",
        &[
            "Cargo.toml",
            "guests/sdk",
            "guests/sdk-kube",
            "host/types",
            "wit",
        ],
    ),
    ("TYPESCRIPT_TEMPLATE", "templates/typescript", &["."]),
    ("JAVASCRIPT_TEMPLATE", "templates/javascript", &["."]),
    (
        "JAVASCRIPT_SDK",
        "../../guests/sdk-js",
        &["package.json", "README.md", "src"],
    ),
    ("GO_TEMPLATE", "templates/go", &["."]),
    ("GO_SDK", "../../guests/sdk-go", &["."]),
    ("PYTHON_TEMPLATE", "templates/python", &["."]),
    (
        "PYTHON_SDK",
        "../../guests/sdk-python",
        &["README.md", "pyproject.toml", "flyball"],
    ),
    ("C_TEMPLATE", "templates/c", &["."]),
    ("C_SDK", "../../guests/sdk-c", &["."]),
];

fn main() {
    let crate_folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let mut code = String::new();
    for (name, folder, paths) in EMBEDDED {
        let folder = crate_folder
            .join(folder)
            .canonicalize()
            .unwrap_or_else(|error| panic!("{folder}: {error}"));
        let mut files = Vec::new();
        for path in paths {
            let path = folder.join(path);
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, &mut files);
        }
        files.sort();
        writeln!(code, "pub(crate) const {name}: &[File] = &[").expect("a string");
        for file in files {
            let relative = file.strip_prefix(&folder).expect("it is in the folder");
            writeln!(
                code,
                "    ({:?}, include_bytes!({:?})),",
                relative.display().to_string(),
                file.display().to_string()
            )
            .expect("a string");
        }
        code.push_str("];\n");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    std::fs::write(out.join("embedded.rs"), code).expect("the folder for outputs is writable");
}

/// Adds a file, or all files in a folder.
fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
        return;
    }
    let entries = std::fs::read_dir(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    for entry in entries {
        let entry = entry.expect("the folder is readable");
        let name = entry.file_name();
        if !is_ignored(&name.to_string_lossy()) {
            collect(&entry.path(), files);
        }
    }
}
