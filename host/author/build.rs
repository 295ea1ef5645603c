//! Embeds the templates, the SDKs and the world, so that a project can be created and built without a checkout.
//! Compressed together, they take a fifth of their size. Assembles the WASI adapter, so that the binary needs no
//! assembler.

#[path = "src/ignored.rs"]
mod ignored;
#[path = "src/placeholder.rs"]
mod placeholder;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use ignored::is_ignored;
use zstd_safe::{CompressionLevel, compress, compress_bound};

const LEVEL: CompressionLevel = 12;

/// For each table: the folder that its paths are relative to, and the files and folders in it to embed. Paths are
/// relative to this crate.
const EMBEDDED: [(&str, &str, &[&str]); 15] = [
    ("WIT", "../../wit", &["."]),
    ("COMMON_TEMPLATE", "templates/common", &["."]),
    ("RUST_TEMPLATE", "templates/rust", &["."]),
    ("RUST_CLOUD_TEMPLATE", "templates/rust-cloud", &["."]),
    (
        "RUST_SDK",
        "../..",
        &[
            "Cargo.toml",
            "guests/sdk/rust",
            "guests/sdk/rust-cloud",
            "guests/sdk/rust-kube",
            "host/recording",
            "host/types",
        ],
    ),
    ("TYPESCRIPT_TEMPLATE", "templates/typescript", &["."]),
    ("JAVASCRIPT_TEMPLATE", "templates/javascript", &["."]),
    (
        "JAVASCRIPT_SDK",
        "../../guests/sdk/js",
        &["package.json", "README.md", "src"],
    ),
    ("GO_TEMPLATE", "templates/go", &["."]),
    ("GO_CLOUD_TEMPLATE", "templates/go-cloud", &["."]),
    ("GO_SDK", "../../guests/sdk/go", &["."]),
    ("PYTHON_TEMPLATE", "templates/python", &["."]),
    (
        "PYTHON_SDK",
        "../../guests/sdk/python",
        &["README.md", "pyproject.toml", "flyball"],
    ),
    ("C_TEMPLATE", "templates/c", &["."]),
    ("C_SDK", "../../guests/sdk/c", &["."]),
];

fn main() {
    let crate_folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let (mut code, mut contents) = (String::new(), Vec::new());
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
        writeln!(
            code,
            "pub(crate) static {name}: LazyLock<Vec<File>> = LazyLock::new(|| files({}, &[",
            contents.len()
        )
        .expect("a string");
        for file in files {
            let relative = file.strip_prefix(&folder).expect("it is in the folder");
            let content =
                std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            writeln!(
                code,
                "    ({:?}, {}),",
                relative.display().to_string(),
                content.len()
            )
            .expect("a string");
            contents.extend(content);
        }
        code.push_str("]));\n");
    }
    let mut frame = Vec::with_capacity(compress_bound(contents.len()));
    compress(&mut frame, &contents, LEVEL)
        .unwrap_or_else(|code| panic!("zstd: {}", zstd_safe::get_error_name(code)));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    assemble_adapters(&out);
    std::fs::write(out.join("embedded.rs"), code).expect("the folder for outputs is writable");
    std::fs::write(out.join("embedded.zst"), frame).expect("the folder for outputs is writable");
}

/// The imports of an adapter in which sleeping takes time, and the body of its function `$sleep`.
const WAITING: &str = "(import \"wasi:clocks/monotonic-clock@0.2.0\" \"subscribe-duration\" (func $subscribe (param i64) (result i32)))
  (import \"wasi:io/poll@0.2.0\" \"[method]pollable.block\" (func $block (param i32)))
  (import \"wasi:io/poll@0.2.0\" \"[resource-drop]pollable\" (func $drop (param i32)))";
const SLEEP: &str = "(local $pollable i32)
    (call $block (local.tee $pollable (call $subscribe (local.get $time)))) (call $drop (local.get $pollable))";

/// Assembles the WASI adapter, which writes output to the log from a buffer: one in which sleeping returns at once, and one
/// in which it takes time.
fn assemble_adapters(out: &Path) {
    println!("cargo::rerun-if-changed=src/deny.wat");
    println!("cargo::rerun-if-changed=../../wit/world.wit");
    let world = std::fs::read_to_string("../../wit/world.wit").expect("the world is readable");
    let package = world
        .lines()
        .find_map(|line| line.strip_prefix("package ")?.strip_suffix(';'))
        .and_then(|package| package.split_once('@'));
    let (package, version) = package.expect("the world has a version");
    let log = format!("{package}/log@{version}");
    println!("cargo::rustc-env=ADAPTER_LOG={log}");
    let logging = format!("(import \"{log}\" \"write\" (func $log (param i32 i32 i32 i32 i32)))");
    let (buffer, size) = (placeholder::BUFFER, placeholder::SIZE);
    for (name, waiting, sleep) in [("logging", "", ""), ("waiting", WAITING, SLEEP)] {
        let text = include_str!("src/deny.wat")
            .replace("{{WAITING}}", waiting)
            .replace("{{SLEEP}}", sleep)
            .replace("{{LOG}}", &logging)
            .replace("{{BUFFER}}", &buffer.to_string())
            .replace("{{SIZE}}", &size.to_string());
        let module = wat::parse_str(text).unwrap_or_else(|error| panic!("src/deny.wat: {error}"));
        for number in [buffer, size] {
            placeholder::find(&module, number).expect("a placeholder is there once");
        }
        std::fs::write(out.join(format!("{name}.wasm")), module)
            .expect("the folder for outputs is writable");
    }
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
